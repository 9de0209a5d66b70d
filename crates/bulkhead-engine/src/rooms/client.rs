//! The other end of a shim's socket.

mod dial;
mod files;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use self::dial::{Inward, Outward, Socket};
pub use self::{
    dial::{Dial, Duplex},
    files::{Download, Links, Named, Unpoured, Upload},
};
use super::{
    frame::{CHUNK, Frame, Lane, read, say, send},
    journal::Lifetime,
    pool::HandOut,
    protocol::{Answer, Failed, Opening, ProgramInfo, Request, RoomInfo, Stats, VERSION},
};
use crate::room::{From, Which};
use bulkhead_backends::Copied;
use bulkhead_spec::{Change, Ending, Exec, Terminal, Word};
use rustix::process::Signal;

/// A room that somebody else holds.
#[derive(Clone, Debug)]
pub struct Client {
    dial: Arc<dyn Dial>,
    /// The connection that it was handed out on, for what is asked first.
    open: Arc<Mutex<Option<Duplex>>>,
}

/// What a room did not do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers: the room has ended, or is just ending.
    #[error("the room does not answer")]
    Gone(#[source] io::Error),
    /// It answered that it could not.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// It said something that makes no sense here.
    #[error("the room's shim answered `{0}`, which makes no sense here")]
    Confused(String),
}

/// A program that runs in a room, seen from outside; two tasks may each take a half.
#[derive(Debug)]
pub struct Attached {
    /// To hear what it says.
    pub ear: Ear,
    /// To do something to it.
    pub hand: Hand,
    /// Its process as the room counts, if it was just started.
    pub pid: Option<u32>,
}

/// The half of a program's connection on which it is heard.
pub struct Ear {
    /// How the room calls the program.
    pub program: u32,
    from: Inward,
}

/// What a client does to a program.
pub struct Hand {
    to: Outward,
}

/// What comes back from a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It said something.
    Said(Which, Vec<u8>),
    /// So much of what it said is no longer there.
    Lost(u64),
    /// It ended so, or it is not known how; after so long.
    Ended(Result<Ending, String>, Duration),
    /// That was all that is there; it still runs.
    Running,
}

/// What is to be different about a room.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Variables, limits, rules.
    pub change: Change,
    /// How long it lives, from now on.
    pub lifetime: Option<Lifetime>,
    /// Labels that it gets.
    pub labels: BTreeMap<String, String>,
}

type Answered<T> = Result<T, ClientError>;

impl Client {
    /// A client of the shim that listens at `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self::over(Socket(socket))
    }

    /// A client of the shim that `dial` leads to.
    pub fn over(dial: impl Dial + 'static) -> Self {
        Self { dial: Arc::new(dial), open: Arc::default() }
    }

    /// A connection, for whoever passes on what is said and understands none of it.
    pub async fn connect(&self) -> Answered<Duplex> {
        self.dial.dial().await.map_err(ClientError::Gone)
    }

    /// Starts a program and stays with it.
    pub async fn exec(&self, exec: Exec, tag: Option<String>) -> Answered<Attached> {
        let (mut from, to) = self.ask(Request::Exec { exec, tag, stay: true }).await?;
        let answer = answer(&mut from).await?;
        if let Answer::Started { program, pid } = answer {
            let attached = Attached::new(program, from, to);
            Ok(Attached { pid: Some(pid), ..attached })
        } else {
            Err(confused(&answer))
        }
    }

    /// Starts a program and leaves it to itself.
    pub async fn spawn(&self, exec: Exec, tag: Option<String>) -> Answered<u32> {
        let (mut from, _to) = self.ask(Request::Exec { exec, tag, stay: false }).await?;
        let answer = answer(&mut from).await?;
        if let Answer::Started { program, .. } = answer {
            Ok(program)
        } else {
            Err(confused(&answer))
        }
    }

    /// Joins a program that runs.
    pub async fn attach(&self, program: u32, from: From) -> Answered<Attached> {
        let from_start = from == From::Start;
        let request = Request::Attach { program, from_start, follow: true, look: false };
        let (from, to) = self.ask(request).await?;
        Ok(Attached::new(program, from, to))
    }

    /// Hears what a program says without holding it up: what came faster than it was heard is
    /// told as lost.
    pub async fn overhear(&self, program: u32, from: From) -> Answered<Attached> {
        let from_start = from == From::Start;
        let request = Request::Attach { program, from_start, follow: true, look: true };
        let (from, to) = self.ask(request).await?;
        Ok(Attached::new(program, from, to))
    }

    /// What is there of what a program said.
    pub async fn output(&self, program: u32) -> Answered<Attached> {
        let request = Request::Attach { program, from_start: true, follow: false, look: true };
        let (from, to) = self.ask(request).await?;
        Ok(Attached::new(program, from, to))
    }

    /// Its programs, running or ended not long ago.
    pub async fn programs(&self) -> Answered<Vec<ProgramInfo>> {
        let answer = self.one(Request::Programs).await?;
        if let Answer::Programs { programs } = answer {
            Ok(programs)
        } else {
            Err(confused(&answer))
        }
    }

    /// Sends a signal to a program and its process group.
    pub async fn signal(&self, program: u32, signal: Signal) -> Answered<()> {
        self.done(Request::Signal { program, signal: signal.as_raw() }).await
    }

    /// Writes to what a program reads.
    pub async fn input(&self, program: u32, bytes: &[u8]) -> Answered<()> {
        let (mut from, mut to) = self.ask(Request::Input { program }).await?;
        for chunk in bytes.chunks(CHUNK) {
            send(&mut to, Lane::In, chunk).await.map_err(ClientError::Gone)?;
        }
        send(&mut to, Lane::In, &[]).await.map_err(ClientError::Gone)?;
        let answer = answer(&mut from).await?;
        if let Answer::Done = answer { Ok(()) } else { Err(confused(&answer)) }
    }

    /// Ends what a program reads.
    pub async fn close_input(&self, program: u32) -> Answered<()> {
        self.done(Request::CloseInput { program }).await
    }

    /// Tells the terminal of a program its size.
    pub async fn resize(&self, program: u32, terminal: Terminal) -> Answered<()> {
        self.done(Request::Resize { program, terminal }).await
    }

    /// What the room has used.
    pub async fn stats(&self) -> Answered<Stats> {
        let answer = self.one(Request::Stats).await?;
        if let Answer::Stats { stats } = answer { Ok(*stats) } else { Err(confused(&answer)) }
    }

    /// What the room is.
    pub async fn inspect(&self) -> Answered<RoomInfo> {
        let answer = self.one(Request::Inspect).await?;
        if let Answer::Room { room } = answer { Ok(*room) } else { Err(confused(&answer)) }
    }

    /// Freezes every program.
    pub async fn pause(&self) -> Answered<()> {
        self.done(Request::Pause).await
    }

    /// Lets them go on.
    pub async fn resume(&self) -> Answered<()> {
        self.done(Request::Resume).await
    }

    /// Copies its private disk into `layer`, an empty directory, while every program stands still.
    pub(super) async fn copy(&self, layer: &Path) -> Answered<Copied> {
        let layer = Word(layer.as_os_str().to_owned());
        let answer = self.one(Request::Copy { layer }).await?;
        if let Answer::Copied { bytes, files, extent } = answer {
            Ok(Copied { bytes, files, extent })
        } else {
            Err(confused(&answer))
        }
    }

    /// Sets how long the room lives from now on.
    pub async fn live(&self, lifetime: Lifetime) -> Answered<()> {
        self.done(Request::Lifetime(lifetime)).await
    }

    /// Changes something about the room, from now on.
    pub async fn update(&self, update: Update) -> Answered<()> {
        let Update { change, lifetime, labels } = update;
        self.done(Request::Update { change: Box::new(change), lifetime, labels }).await
    }

    /// Makes a parked room somebody's: whoever has this client, which stays connected until it asks
    /// for something.
    pub(super) async fn hand_out(&self, order: HandOut) -> Answered<()> {
        let (mut from, to) = self.ask(Request::HandOut(Box::new(order))).await?;
        let answer = answer(&mut from).await?;
        if let Answer::Done = answer {
            *self.open() = Some(Duplex { from, to });
            Ok(())
        } else {
            Err(confused(&answer))
        }
    }

    /// Ends a room if it is still parked. Returns when nothing of it is left.
    pub(super) async fn retire(&self) -> Answered<()> {
        let (mut from, _to) = self.ask(Request::Retire).await?;
        let answer = answer(&mut from).await?;
        if !matches!(answer, Answer::Done) {
            return Err(confused(&answer));
        }
        until_gone(&mut from).await;
        Ok(())
    }

    /// Ends the room; its programs have `grace` to stop by themselves. Returns when nothing of it
    /// is left.
    pub async fn end(&self, grace: Duration) -> Answered<()> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let (mut from, _to) = self.ask(Request::End { grace_ms }).await?;
        let answer = answer(&mut from).await?;
        if !matches!(answer, Answer::Done) {
            return Err(confused(&answer));
        }
        until_gone(&mut from).await;
        Ok(())
    }

    async fn done(&self, request: Request) -> Answered<()> {
        let answer = self.one(request).await?;
        if let Answer::Done = answer { Ok(()) } else { Err(confused(&answer)) }
    }

    async fn one(&self, request: Request) -> Answered<Answer> {
        let (mut from, to) = self.ask(request).await?;
        let answer = answer(&mut from).await;
        // Both at once: the shim is woken for the end of each.
        drop(from);
        drop(to);
        answer
    }

    async fn ask(&self, request: Request) -> Answered<(Inward, Outward)> {
        let opening = Opening { version: VERSION, request };
        let open = self.open().take();
        // The shim that handed it out may have gone, and another one hold the room.
        if let Some(Duplex { from, mut to }) = open
            && say(&mut to, &opening).await.is_ok()
        {
            return Ok((from, to));
        }
        let Duplex { from, mut to } = self.dial.dial().await.map_err(ClientError::Gone)?;
        say(&mut to, &opening).await.map_err(ClientError::Gone)?;
        Ok((from, to))
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Option<Duplex>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attached {
    fn new(program: u32, from: Inward, to: Outward) -> Self {
        Self { ear: Ear { program, from }, hand: Hand { to }, pid: None }
    }
}

impl Ear {
    /// What comes next; nothing more comes after the end.
    pub async fn next(&mut self) -> Answered<Reply> {
        let frame = read(&mut self.from).await.map_err(ClientError::Gone)?;
        let Some(frame) = frame else {
            return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into()));
        };
        match frame {
            Frame::Bytes(Lane::Err, bytes) => Ok(Reply::Said(Which::Stderr, bytes)),
            Frame::Bytes(Lane::In | Lane::Out, bytes) => Ok(Reply::Said(Which::Stdout, bytes)),
            Frame::Message(_) => match frame.message().map_err(ClientError::Gone)? {
                Answer::Lost { bytes } => Ok(Reply::Lost(bytes)),
                Answer::Done => Ok(Reply::Running),
                Answer::Ended { ending, trouble, wall_seconds } => {
                    let ending = ending.ok_or_else(|| trouble.unwrap_or_default());
                    let wall = Duration::try_from_secs_f64(wall_seconds).unwrap_or_default();
                    Ok(Reply::Ended(ending, wall))
                }
                Answer::Failed(failed) => Err(failed.into()),
                other @ (Answer::Started { .. }
                | Answer::File { .. }
                | Answer::Listing { .. }
                | Answer::Programs { .. }
                | Answer::Stats { .. }
                | Answer::Copied { .. }
                | Answer::Room { .. }) => Err(confused(&other)),
            },
        }
    }
}

impl Hand {
    /// Writes to what it reads.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            send(&mut self.to, Lane::In, chunk).await?;
        }
        Ok(())
    }

    /// Ends what it reads. Signals and sizes go by [`Client::signal`] and [`Client::resize`], on
    /// connections of their own, so that input which nobody reads does not hold them up.
    pub async fn close_input(&mut self) -> io::Result<()> {
        send(&mut self.to, Lane::In, &[]).await
    }
}

/// The shim hangs up when all else has gone, and also when it dies on the way, which ends the room
/// as well.
async fn until_gone(from: &mut Inward) {
    while let Ok(Some(_)) = read(from).await {}
}

async fn answer(from: &mut Inward) -> Answered<Answer> {
    let frame = read(from).await.map_err(ClientError::Gone)?;
    let Some(frame) = frame else {
        return Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into()));
    };
    let answer = frame.message().map_err(ClientError::Gone)?;
    if let Answer::Failed(failed) = answer { Err(failed.into()) } else { Ok(answer) }
}

fn confused(answer: &Answer) -> ClientError {
    ClientError::Confused(format!("{answer:?}"))
}

impl std::fmt::Debug for Ear {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ear of program {}", self.program)
    }
}

impl std::fmt::Debug for Hand {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Hand")
    }
}
