//! What programs print.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bulkhead_spec::{Bytes, Ending, Stream};
use tokio::io::AsyncWrite;

use crate::{
    ask::sh,
    house::{House, text},
};

/// The most memory that this process has had, in KiB.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

const MUCH: u64 = 64 * 1024;

#[tokio::test]
async fn a_flood_is_stopped_at_its_limit() {
    let house = House::new();
    let before = memory_peak();
    let limit = Bytes(1 << 20);
    let ask = sh("head -c 1G /dev/zero").with(|it| it.spec.limits.output = Some(limit));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::OutputLimit { limit });
    assert_eq!(outcome.stdout.bytes, limit.0, "what was passed on");
    let grown = memory_peak() - before;
    assert!(grown < MUCH, "{grown} KiB");
}

#[tokio::test]
async fn output_that_is_not_kept_takes_no_memory() {
    let house = House::new();
    let before = memory_peak();
    let outcome = house.run(sh("head -c 256M /dev/zero")).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(outcome.stdout.bytes, 256 << 20);
    let grown = memory_peak() - before;
    assert!(grown < MUCH, "{grown} KiB");
}

#[tokio::test]
async fn the_limit_is_for_both_streams_together() {
    let house = House::new();
    let limit = Bytes(1000);
    let script = "head -c 600 /dev/zero; head -c 600 /dev/zero >&2; sleep 1000";
    let ask = sh(script).with(|it| it.spec.limits.output = Some(limit));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::OutputLimit { limit });
    assert_eq!(outcome.stdout.bytes + outcome.stderr.bytes, limit.0);
}

#[tokio::test]
async fn a_program_that_says_too_much_and_ends_at_once_has_said_too_much() {
    let house = House::new();
    let limit = Bytes(10);
    for _ in 0..20 {
        let ask = sh("echo this is too long").with(|it| it.spec.limits.output = Some(limit));
        let outcome = house.run(ask).await.unwrap();
        assert_eq!(outcome.ending, Ending::OutputLimit { limit });
    }
}

#[tokio::test]
async fn output_of_just_its_limit_is_no_flood() {
    let house = House::new();
    let limit = Bytes(10);
    let ask = sh("printf 0123456789").with(|it| it.spec.limits.output = Some(limit));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(text(&outcome.stdout), "0123456789");
}

/// What is kept of 20 letters when `keep` bytes are.
async fn kept(keep: u64) -> Stream {
    let house = House::new();
    let script = "printf abcdefgh; sleep 0.05; printf ijklmnopqrst";
    let outcome = house.run(sh(script).with(|it| it.keep = Bytes(keep))).await.unwrap();
    outcome.stdout
}

fn stream(head: &str, tail: &str) -> Stream {
    let truncated = head.len() + tail.len() < 20;
    Stream { bytes: 20, truncated, head: head.into(), tail: tail.into() }
}

#[tokio::test]
async fn the_first_and_the_last_bytes_are_kept() {
    assert_eq!(kept(10).await, stream("abcde", "pqrst"));
    assert_eq!(kept(20).await, stream("abcdefghij", "klmnopqrst"));
    assert_eq!(kept(40).await, stream("abcdefghijklmnopqrst", ""));
    assert_eq!(kept(0).await, stream("", ""));
}

#[tokio::test]
async fn bytes_that_are_no_text_arrive_unchanged() {
    let house = House::new();
    let outcome = house.run(sh(r"printf '\000\377\r\n\033'; printf '\200' >&2")).await.unwrap();
    assert_eq!(outcome.stdout.head, b"\x00\xff\r\n\x1b");
    assert_eq!(outcome.stderr.head, b"\x80");
}

/// Somebody who took the output and has gone.
struct Gone;

impl AsyncWrite for Gone {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_program_whose_reader_is_gone_gets_sigpipe() {
    let house = House::new();
    let ask = sh("exec yes");
    let outcome = house.run_on(ask, |it| it.stdout = Some(Box::new(Gone))).await.unwrap();
    assert_eq!(outcome.ending, Ending::Signaled { signal: 13 });
}

#[tokio::test]
async fn a_program_whose_complaints_nobody_takes_still_says_the_rest() {
    let house = House::new();
    let script = "trap '' PIPE; i=0; while [ $i -lt 99 ]; do echo no >&2; i=$((i+1)); done
        sleep 0.1; echo more >&2; echo said";
    let outcome =
        house.run_on(sh(script), |it| it.stderr = Some(Box::new(Gone))).await.unwrap();
    assert_eq!(outcome.ending, Ending::Exited { code: 0 });
    assert_eq!(text(&outcome.stdout), "said\n");
}
