//! Programs of a guest.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};

use bulkhead_guest::{
    protocol::{After, Counted, Disk, MOST_TO_GUEST, Start, Status, Stdio, ToGuest},
    wire::encode,
};
use bulkhead_linux::launch::Stage;
use bulkhead_spec::{Stdin, Terminal};
use rustix::{
    process::Signal,
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    io::unix::AsyncFd,
    sync::{oneshot, watch},
};

use super::{
    channel::{Channel, ChannelReader, ChannelWriter},
    link::{Carriage, Link},
    pipe::{Pipe, Ways},
    state::{Answer, Asked, Known},
    streams,
};
use crate::{BackendError, ProcessHandle, Streams};

/// A program to start.
#[derive(Clone, Debug)]
pub struct Order {
    /// The program and its arguments.
    pub argv: Vec<Vec<u8>>,
    /// Its variables, each `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Where it starts.
    pub dir: Vec<u8>,
    /// Whether it reads; on a terminal it always does.
    pub stdin: Stdin,
    /// Its terminal, if it gets one.
    pub terminal: Option<Terminal>,
    /// What the guest does when it has ended.
    pub after: After,
}

impl Order {
    /// At least as long as the message that it becomes.
    fn length(&self) -> usize {
        let texts = self.argv.iter().chain(&self.env).chain([&self.dir]);
        texts.map(|it| it.len() + 5).sum::<usize>() + 100
    }
}

/// How a program ended, as the guest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// As `wait` says it.
    pub status: Status,
    /// Whether the private disk had room left.
    pub disk: Disk,
    /// What all programs of the guest that ended until then have used.
    pub counted: Counted,
}

/// Why a program did not start.
#[derive(Debug)]
pub enum NotStarted {
    /// The sandbox could not do it.
    Refused {
        /// How far it came.
        stage: Stage,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something else.
    Failed(BackendError),
}

/// A program that was asked for.
pub struct Starting {
    link: Link,
    id: u32,
    started: oneshot::Receiver<Answer>,
    ended: watch::Receiver<Option<Ended>>,
    ours: Ours,
}

/// Our ends of its streams.
enum Ours {
    Streams(Streams),
    /// Comes with the start.
    Terminal,
    CarriedTerminal(Streams),
}

/// A program that runs, or has ended.
pub struct Program {
    link: Link,
    id: u32,
    pid: u32,
    streams: Option<Streams>,
    terminal: Size,
    ended: watch::Receiver<Option<Ended>>,
}

/// A hand on a program that outlives whoever waits for it.
pub struct Handle {
    link: Link,
    id: u32,
    terminal: Size,
}

/// Who is told the size of a terminal.
#[derive(Clone)]
enum Size {
    Nobody,
    Terminal(Arc<AsyncFd<OwnedFd>>),
    Guest,
}

impl Link {
    /// Starts a program.
    pub async fn start(&self, order: Order) -> Result<Program, NotStarted> {
        self.begin(order)?.finish().await
    }

    /// Asks for a program without waiting for it: it starts when the walls stand.
    pub fn begin(&self, order: Order) -> Result<Starting, NotStarted> {
        let failed = |source| {
            NotStarted::Failed(BackendError::System { action: "start a program", source })
        };
        if MOST_TO_GUEST < order.length() {
            return Err(failed(io::ErrorKind::ArgumentListTooLong.into()));
        }
        let (id, made) = {
            let mut known = self.state.known();
            let id = known.number().map_err(failed)?;
            (id, self.streams(&mut known, &order).map_err(failed)?)
        };
        let carried = match made.stdio {
            Stdio::Descriptors | Stdio::Terminal(_) => Vec::new(),
            Stdio::Carried { stdin, stdout, stderr } => {
                stdin.into_iter().chain([stdout, stderr]).collect()
            }
            Stdio::CarriedTerminal { channel, .. } => vec![channel],
        };
        let terminal = matches!(made.stdio, Stdio::Terminal(_));
        let Order { argv, env, dir, after, .. } = order;
        let start = Start { id, argv, env, dir, stdio: made.stdio, after };
        let frame = encode(&ToGuest::Start(start)).map_err(failed)?;
        let (asked, started) = oneshot::channel();
        let (ended, ending) = watch::channel(None);
        let mut known = self.state.known();
        if !known.is_over() {
            let asked = Asked { started: Some(asked), carried, terminal, ended };
            known.programs.insert(id, asked);
            known.outbox.push(frame, made.theirs);
        }
        drop(known);
        let ours = made.ours;
        Ok(Starting { link: self.clone(), id, started, ended: ending, ours })
    }

    fn streams(&self, known: &mut Known, order: &Order) -> io::Result<Made> {
        let size = order.terminal.map(|it| (it.rows, it.columns));
        match (self.carriage, size) {
            (Carriage::Descriptors, None) => {
                let (ours, theirs) = streams::pipes(order.stdin)?;
                let (ours, theirs) = (Ours::Streams(ours), Vec::from(theirs));
                Ok(Made { stdio: Stdio::Descriptors, ours, theirs })
            }
            (Carriage::Descriptors, Some(size)) => {
                Ok(Made { stdio: Stdio::Terminal(size), ours: Ours::Terminal, theirs: vec![] })
            }
            (Carriage::Channels, None) => self.carried(known, order.stdin),
            (Carriage::Channels, Some(size)) => {
                let (channel, pipe) = known.channel(Ways::Both)?;
                let both = Channel::new(channel, pipe, Arc::clone(&self.state));
                let (stdout, stdin) = both.into_split();
                let (stdin, stdout) = (Some(Box::new(stdin) as _), Box::new(stdout));
                let ours = Ours::CarriedTerminal(Streams { stdin, stdout, stderr: None });
                Ok(Made {
                    stdio: Stdio::CarriedTerminal { channel, size },
                    ours,
                    theirs: vec![],
                })
            }
        }
    }

    fn carried(&self, known: &mut Known, reads: Stdin) -> io::Result<Made> {
        let state = || Arc::clone(&self.state);
        let input = match reads {
            Stdin::Empty => None,
            Stdin::Piped => Some(known.channel(Ways::ToGuest)?),
        };
        let (output, errors) =
            (known.channel(Ways::FromGuest)?, known.channel(Ways::FromGuest)?);
        let stdio = Stdio::Carried {
            stdin: input.as_ref().map(|(channel, _)| *channel),
            stdout: output.0,
            stderr: errors.0,
        };
        let reader = |(id, pipe): (u32, Arc<Mutex<Pipe>>)| {
            Box::new(ChannelReader::new(id, pipe, state()))
        };
        let writer = |(id, pipe)| Box::new(ChannelWriter::new(id, pipe, state())) as _;
        let ours = Ours::Streams(Streams {
            stdin: input.map(writer),
            stdout: reader(output),
            stderr: Some(reader(errors)),
        });
        Ok(Made { stdio, ours, theirs: vec![] })
    }
}

/// The streams of a program to be.
struct Made {
    stdio: Stdio,
    ours: Ours,
    theirs: Vec<OwnedFd>,
}

impl Starting {
    /// Waits until it runs.
    pub async fn finish(self) -> Result<Program, NotStarted> {
        let Self { link, id, started, ended, ours } = self;
        let (pid, terminal) = match started.await {
            Ok(Ok(started)) => started,
            Ok(Err((stage, errno))) => {
                let source = io::Error::from_raw_os_error(errno);
                return Err(NotStarted::Refused { stage, source });
            }
            Err(_) => return Err(NotStarted::Failed(link.gone("a start"))),
        };
        let (streams, terminal) = match ours {
            Ours::Streams(streams) => (streams, Size::Nobody),
            Ours::CarriedTerminal(streams) => (streams, Size::Guest),
            Ours::Terminal => {
                let (streams, end) = streams::terminal(terminal).map_err(|source| {
                    NotStarted::Failed(BackendError::System {
                        action: "open a terminal",
                        source,
                    })
                })?;
                (streams, Size::Terminal(end))
            }
        };
        Ok(Program { link, id, pid, streams: Some(streams), terminal, ended })
    }
}

impl Program {
    /// Its process, as the sandbox counts. Only for those inside: the guest may say anything.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its streams, to be taken once.
    pub fn take_streams(&mut self) -> Option<Streams> {
        self.streams.take()
    }

    /// How it ended, once it has; `None` if the guest is gone, and everything with it.
    ///
    /// # Guarantees
    /// What the program itself wrote has arrived when this returns. So somebody must read it: as
    /// long as it has no room on the way, this waits.
    ///
    /// # Cancellation
    /// May be called again.
    pub async fn wait(&mut self) -> Result<Option<Ended>, BackendError> {
        loop {
            if let Some(ended) = *self.ended.borrow_and_update() {
                return Ok(Some(ended));
            }
            if self.ended.changed().await.is_err() {
                // The last word may have come before the end.
                let last = *self.ended.borrow_and_update();
                return if last.is_some() {
                    Ok(last)
                } else {
                    self.link.state.gone().map(|()| None)
                };
            }
        }
    }

    /// A hand on it.
    pub fn handle(&self) -> Handle {
        let terminal = self.terminal.clone();
        Handle { link: self.link.clone(), id: self.id, terminal }
    }
}

#[async_trait::async_trait]
impl ProcessHandle for Handle {
    async fn signal(&self, signal: Signal) -> Result<(), BackendError> {
        let signal = signal.as_raw();
        self.link.state.say(&ToGuest::Signal { id: self.id, signal });
        self.link.state.gone()
    }

    async fn resize(&self, Terminal { rows, columns }: Terminal) -> Result<(), BackendError> {
        match &self.terminal {
            Size::Nobody => Ok(()),
            Size::Guest => {
                self.link.state.say(&ToGuest::Resize { id: self.id, size: (rows, columns) });
                self.link.state.gone()
            }
            Size::Terminal(terminal) => {
                let size =
                    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
                tcsetwinsize(terminal.get_ref(), size).map_err(|errno| BackendError::System {
                    action: "tell the terminal its size",
                    source: errno.into(),
                })
            }
        }
    }
}
