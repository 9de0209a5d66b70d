//! Programs that do not want to end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bulkhead_spec::{Ending, Span};
use tokio::io::AsyncWrite;

use crate::{
    ask::sh,
    house::{House, text},
};

const TIMEOUT: Duration = Duration::from_millis(400);

/// How long after its deadline a sandbox may still be there.
const PROMISED: Duration = Duration::from_secs(1);

/// Runs `script`, which says that it is ready and then will not end, and looks whether it and all
/// its processes are gone in time.
async fn ends_in_time(script: &str) {
    let house = House::new();
    let start = Instant::now();
    let mut running = house.start(sh(script).stopped_after(TIMEOUT));
    let processes = running.ready().await;
    let outcome = running.end().await;
    let took = start.elapsed();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    assert_eq!(outcome.ending.exit_code(), 124);
    assert!(processes.left().is_empty(), "{:?} of {processes:?}", processes.left());
    assert!(took < TIMEOUT + PROMISED, "{took:?}");
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_ends_at_its_deadline() {
    ends_in_time("trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done").await;
}

#[tokio::test]
async fn a_program_that_is_stopped_ends_at_its_deadline() {
    ends_in_time("echo ready; kill -STOP $$; echo never").await;
}

#[tokio::test]
async fn a_program_that_left_its_session_ends_at_its_deadline() {
    let script = "setsid sh -c 'trap \"\" TERM; setsid sleep 1000 & sleep 1000' &
        (setsid setsid sleep 1000 >/dev/null 2>&1 &)
        sleep 0.1; echo ready; sleep 1000";
    ends_in_time(script).await;
}

#[tokio::test]
async fn a_deadline_of_the_room_holds_for_its_program() {
    let house = House::new();
    let ask = sh("sleep 1000").with(|it| it.spec.limits.timeout = Some(Span(TIMEOUT)));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
}

const TIDY: &str = "trap 'echo tidied up; exit 5' TERM; while :; do sleep 0.02; done";

#[tokio::test]
async fn a_program_with_grace_tidies_up_and_is_not_waited_for_longer() {
    let house = House::new();
    let start = Instant::now();
    let ask = sh(TIDY).stopped_after(TIMEOUT);
    let ask = ask.with(|it| it.exec.grace = Duration::from_mins(1));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    assert_eq!(text(&outcome.stdout), "tidied up\n");
    assert!(start.elapsed() < TIMEOUT + PROMISED, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_program_without_grace_gets_no_warning() {
    let house = House::new();
    let outcome = house.run(sh(TIDY).stopped_after(TIMEOUT)).await.unwrap();
    assert_eq!(text(&outcome.stdout), "");
}

#[tokio::test]
async fn grace_ends_too() {
    let house = House::new();
    let start = Instant::now();
    let grace = Duration::from_millis(200);
    let ask = sh("trap '' TERM; while :; do sleep 0.02; done").stopped_after(TIMEOUT);
    let outcome = house.run(ask.with(|it| it.exec.grace = grace)).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    let took = start.elapsed();
    assert!((TIMEOUT + grace..TIMEOUT + grace + PROMISED).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_does_not_keep_us() {
    let house = House::new();
    let start = Instant::now();
    let mut running = house.start(sh("setsid sleep 1000 & echo ready; sleep 0.2; exit 3"));
    let processes = running.ready().await;
    let outcome = running.end().await;
    assert_eq!(outcome.ending, Ending::Exited { code: 3 });
    assert!(processes.left().is_empty(), "{:?}", processes.left());
    assert!(start.elapsed() < PROMISED, "{:?}", start.elapsed());
}

/// Somebody who was to take the output and never does.
struct Deaf;

impl AsyncWrite for Deaf {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn the_deadline_holds_though_nobody_takes_the_output() {
    let house = House::new();
    let start = Instant::now();
    let ask = sh("yes").stopped_after(TIMEOUT);
    let outcome = house.run_on(ask, |it| it.stdout = Some(Box::new(Deaf))).await.unwrap();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    assert!(start.elapsed() < TIMEOUT + PROMISED, "{:?}", start.elapsed());
    assert!(outcome.stdout.head.starts_with(b"y\ny\n"));
}
