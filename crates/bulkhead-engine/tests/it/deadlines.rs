//! Programs that do not want to end.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bulkhead_spec::{Ending, Outcome, Span};
use tokio::io::AsyncWrite;

use crate::{
    ask::{Ask, sh},
    house::{House, text},
    traces::Processes,
};

const TIMEOUT: Duration = Duration::from_secs(1);

/// How long after its deadline a sandbox may still be there.
const PROMISED: Duration = Duration::from_secs(1);

/// Runs `script`, which says that it is ready and then will not end, and looks whether it and all
/// its processes are gone in time.
async fn ends_in_time(script: &str) {
    let (outcome, processes, took) = stopped(sh(script)).await;
    assert_eq!(outcome.ending.exit_code(), 124);
    assert!(processes.left().is_empty(), "{:?} of {processes:?}", processes.left());
    assert!(took < TIMEOUT + PROMISED, "{took:?}");
}

/// What becomes of a program that says that it is ready and is stopped at its deadline, the processes
/// that it had, and how long after its word it was gone.
async fn stopped(ask: Ask) -> (Outcome, Processes, Duration) {
    let house = House::new();
    let mut running = house.start(ask.stopped_after(TIMEOUT));
    let processes = running.ready().await;
    let ready = Instant::now();
    let outcome = running.end().await;
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    (outcome, processes, ready.elapsed())
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

const TIDY: &str =
    "trap 'echo tidied up; exit 5' TERM; echo ready; while :; do sleep 0.02; done";

#[tokio::test]
async fn a_program_with_grace_tidies_up_and_is_not_waited_for_longer() {
    let ask = sh(TIDY).with(|it| it.exec.grace = Duration::from_mins(1));
    let (outcome, _, took) = stopped(ask).await;
    assert_eq!(text(&outcome.stdout), "ready\ntidied up\n");
    assert!(took < TIMEOUT + PROMISED, "{took:?}");
}

#[tokio::test]
async fn a_program_without_grace_gets_no_warning() {
    let (outcome, _, _) = stopped(sh(TIDY)).await;
    assert_eq!(text(&outcome.stdout), "ready\n");
}

#[tokio::test]
async fn grace_ends_too() {
    let grace = Duration::from_millis(300);
    let ask = sh("trap '' TERM; echo ready; while :; do sleep 0.02; done");
    let (_, processes, took) = stopped(ask.with(|it| it.exec.grace = grace)).await;
    assert!(processes.left().is_empty(), "{:?}", processes.left());
    assert!(took < TIMEOUT + grace + PROMISED, "{took:?}");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_does_not_keep_us() {
    let house = House::new();
    let mut running = house.start(sh("setsid sleep 1000 & echo ready; sleep 0.2; exit 3"));
    let processes = running.ready().await;
    let outcome = running.end().await;
    assert_eq!(outcome.ending, Ending::Exited { code: 3 });
    assert!(processes.left().is_empty(), "{:?}", processes.left());
    assert!(outcome.usage.wall < Duration::from_secs(100), "{:?}", outcome.usage);
}

/// Somebody who was to take the output and never does, but knows when it began to come.
struct Deaf(Arc<OnceLock<Instant>>);

impl AsyncWrite for Deaf {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.get_or_init(Instant::now);
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
    let first = Arc::new(OnceLock::new());
    let deaf = Deaf(Arc::clone(&first));
    let ask = sh("yes").stopped_after(TIMEOUT);
    let outcome = house.run_on(ask, |it| it.stdout = Some(Box::new(deaf))).await.unwrap();
    let took = first.get().unwrap().elapsed();
    assert_eq!(outcome.ending, Ending::TimedOut { limit: Span(TIMEOUT) });
    assert!(took < TIMEOUT + PROMISED, "{took:?}");
    assert!(outcome.stdout.head.starts_with(b"y\ny\n"));
}
