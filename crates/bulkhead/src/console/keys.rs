//! Ctrl-C on a terminal of the program's own.
//!
//! There it is a key like any other: the program's terminal makes a signal of it, or the program
//! reads it. Shells and editors live with that, so it must not end them. What can be told from
//! outside is a program that does not answer: nothing was printed since the last time but the echo
//! of the key itself.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc::UnboundedSender,
};

use super::{Passage, signals::Heard};

const INTERRUPT: u8 = 3;

/// Keys on their way to the program, listened to.
pub(super) struct Keys {
    pub(super) from: Passage,
    pub(super) heard: UnboundedSender<Heard>,
}

impl AsyncRead for Keys {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.from).poll_read(context, into))?;
        for key in into.filled().get(before..).unwrap_or_default() {
            let heard = if *key == INTERRUPT { Heard::Interrupt } else { Heard::Key };
            // Nobody listens any more once the program has ended.
            self.heard.send(heard).unwrap_or_default();
        }
        Poll::Ready(Ok(()))
    }
}

/// How much the program has printed, echoes of Ctrl-C aside.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<AtomicU64>);

impl Answers {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: &[u8]) {
        let answer = bytes.iter().filter(|byte| !b"^C\r\n".contains(byte)).count();
        self.0.fetch_add(u64::try_from(answer).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Output on its way from the program, listened to.
pub(super) struct Heeded {
    pub(super) to: Passage,
    pub(super) answers: Answers,
}

impl AsyncWrite for Heeded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.to).poll_write(context, bytes))?;
        self.answers.add(bytes.get(..count).unwrap_or_default());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}
