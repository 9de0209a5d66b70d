//! Where a program's streams lead, and who may interrupt it.

use bulkhead_spec::{Bytes, Terminal};
use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
};

use crate::pump::{Ends, Sink};

/// The caller's side of a running program.
pub struct Console {
    /// What the program reads; nothing if `None`.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Where its output is passed on to as it comes; it is only kept if `None`.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Likewise for its complaints.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// How much of each stream the outcome keeps, half from its start and half from its end.
    pub keep: Bytes,
    /// What the caller does to the program while it runs.
    pub control: mpsc::UnboundedReceiver<Control>,
    /// Is told when the program was asked for and nothing is left to do but to wait for it, and dropped
    /// if it never is: for whoever has work that can wait until then.
    pub asked: Option<oneshot::Sender<()>>,
}

/// What a caller can do to a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Pass a signal on. The program may catch it.
    Signal(Signal),
    /// Its terminal has a new size.
    Resize(Terminal),
    /// End it, and everything it started, now.
    Kill,
}

impl Console {
    /// The streams of a program that runs, and what comes besides them.
    pub(crate) fn split(self) -> (Ends, mpsc::UnboundedReceiver<Control>) {
        let Self { stdin, stdout, stderr, keep, control, asked: _ } = self;
        let sink = |it| Box::new(it) as Box<dyn Sink>;
        let ends = Ends { stdin, stdout: stdout.map(sink), stderr: stderr.map(sink), keep };
        (ends, control)
    }

    /// A console that keeps up to `keep` bytes of each stream and passes nothing on.
    ///
    /// The sender interrupts the program; dropping it means that nobody will.
    pub fn captured(keep: Bytes) -> (Self, mpsc::UnboundedSender<Control>) {
        let (sender, control) = mpsc::unbounded_channel();
        let asked = None;
        (Self { stdin: None, stdout: None, stderr: None, keep, control, asked }, sender)
    }
}
