//! One connection of a client.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bulkhead_backends::Copied;
use bulkhead_spec::{Exec, Word};
use rustix::process::Signal;
use tokio::time::timeout;

use super::{
    super::{
        client::Update,
        frame::{Frame, Lane, read, say, send},
        journal::{JournalError, Why},
        line::{Heard, Mouth},
        protocol::{
            Answer, Failed, Opening, ProgramInfo, Request, RoomInfo, Stats, VERSION, Versioned,
        },
    },
    Ending, Held,
    change::NotGiven,
};
use crate::{
    ErrorKind, RunError,
    room::{Finished, From, Piece, Program, Tail, Which},
};

/// How long an answer waits for a program that was killed.
const KILLED: Duration = Duration::from_secs(1);

/// Serves one client. What goes wrong on its connection is its own affair.
pub(super) async fn serve(held: Arc<Held>, from: Heard, to: Mouth) {
    let mut client = Client { held, from, to };
    loop {
        match client.next().await {
            Ok(After::Another) => {}
            Ok(After::Nothing) => return,
            Err(error) => {
                tracing::debug!(%error, "a connection ended early");
                return;
            }
        }
    }
}

/// What comes on a connection after something was done.
enum After {
    /// Nothing.
    Nothing,
    /// Whatever the client wants to do with the room that it was just given.
    Another,
}

pub(super) struct Client {
    pub(super) held: Arc<Held>,
    pub(super) from: Heard,
    pub(super) to: Mouth,
}

/// What went wrong: with the connection, or with what was asked for.
pub(super) enum Trouble {
    Stream(io::Error),
    Run(RunError),
    Journal(JournalError),
}

impl std::convert::From<NotGiven> for Trouble {
    fn from(error: NotGiven) -> Self {
        match error {
            NotGiven::Journal(error) => Self::Journal(error),
            NotGiven::Run(error) => Self::Run(error),
        }
    }
}

impl std::convert::From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

impl std::convert::From<RunError> for Trouble {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Client {
    /// Does what is asked for next; meanwhile somebody uses the room.
    async fn next(&mut self) -> io::Result<After> {
        let Some(first) = read(&mut self.from).await? else { return Ok(After::Nothing) };
        self.held.guests.send_modify(|it| *it += 1);
        let done = self.attend(&first).await;
        self.held.guests.send_modify(|it| *it = it.saturating_sub(1));
        done
    }

    async fn attend(&mut self, first: &Frame) -> io::Result<After> {
        // A later program may ask for what this one has no word for.
        let Versioned { version: known } = first.message()?;
        if known != VERSION {
            let message = format!("this room was made by a program that speaks {VERSION}");
            let causes = vec![format!("the one that asks speaks {known}")];
            let (kind, hint) = ("version".to_owned(), None);
            let failed = Failed { kind, message, causes, hint, exit: 125 };
            say(&mut self.to, &Answer::Failed(failed)).await?;
            return Ok(After::Nothing);
        }
        let Opening { request, .. } = first.message()?;
        let hands_out = matches!(request, Request::HandOut(_));
        let obeyed = if self.held.is_parked() && !is_for_parked(&request) {
            Err(refused("use a parked room", "nobody has it yet").into())
        } else if self.held.is_ending() && !matches!(request, Request::End { .. }) {
            Err(refused("use the room", "it is about to end").into())
        } else {
            self.obey(request).await
        };
        match obeyed {
            Ok(()) if hands_out => return Ok(After::Another),
            Ok(()) => {}
            Err(Trouble::Stream(error)) => return Err(error),
            Err(Trouble::Run(error)) => say(&mut self.to, &failed(&error)).await?,
            Err(Trouble::Journal(error)) => say(&mut self.to, &of_journal(&error)).await?,
        }
        Ok(After::Nothing)
    }

    async fn obey(&mut self, request: Request) -> Result<(), Trouble> {
        match request {
            Request::Exec { exec, tag, stay } => {
                let program = self.exec(exec, tag).await?;
                let tail = program.attach(From::Start);
                let (id, pid) = (program.id(), program.pid());
                self.answer(Answer::Started { program: id, pid }).await?;
                if stay { self.accompany(&program, tail).await } else { Ok(()) }
            }
            Request::Attach { program, from_start, follow, look } => {
                let program = self.program(program)?;
                let from = if from_start { From::Start } else { From::Now };
                if follow {
                    let tail = if look { program.look(from) } else { program.attach(from) };
                    self.accompany(&program, tail).await
                } else {
                    self.recite(&program).await
                }
            }
            Request::Programs => {
                let programs = self.held.room.programs();
                let programs = programs.iter().map(|it| info(it)).collect();
                self.answer(Answer::Programs { programs }).await
            }
            Request::Signal { program, signal } => {
                let program = self.program(program)?;
                let signal = named(signal)?;
                if signal == Signal::KILL {
                    program.kill();
                    // Whoever looks next finds it ended, unless the kernel takes its time.
                    timeout(KILLED, program.wait()).await.map(drop).unwrap_or_default();
                } else {
                    program.signal(signal);
                }
                self.answer(Answer::Done).await
            }
            Request::File(request) => self.file(request).await,
            Request::Forward { port } => self.forward(port).await,
            Request::Input { program } => self.input(program).await,
            Request::CloseInput { program } => {
                self.program(program)?.close_stdin().await;
                self.answer(Answer::Done).await
            }
            Request::Resize { program, terminal } => {
                self.program(program)?.resize(terminal);
                self.answer(Answer::Done).await
            }
            Request::Stats
            | Request::Inspect
            | Request::Pause
            | Request::Resume
            | Request::Copy { .. }
            | Request::Lifetime(_)
            | Request::Update { .. }
            | Request::HandOut(_)
            | Request::Retire
            | Request::End { .. } => self.about_room(request).await,
        }
    }

    async fn about_room(&mut self, request: Request) -> Result<(), Trouble> {
        match request {
            Request::Stats => {
                let stats = Box::new(self.stats().await?);
                self.answer(Answer::Stats { stats }).await
            }
            Request::Inspect => {
                let room = Box::new(self.room()?);
                self.answer(Answer::Room { room }).await
            }
            Request::Pause => {
                self.held.pause().await?;
                self.answer(Answer::Done).await
            }
            Request::Resume => {
                self.held.resume().await?;
                self.answer(Answer::Done).await
            }
            Request::Copy { layer } => {
                let copied = self.held.copy(Path::new(&layer.0)).await?;
                let Copied { bytes, files, extent } = copied;
                self.answer(Answer::Copied { bytes, files, extent }).await
            }
            Request::Lifetime(lifetime) => {
                self.held.prolong(lifetime);
                self.answer(Answer::Done).await
            }
            Request::Update { change, lifetime, labels } => {
                self.held.update(Update { change: *change, lifetime, labels }).await?;
                self.answer(Answer::Done).await
            }
            Request::HandOut(order) => {
                let parked = self.held.record().clone();
                self.held.hand_out(&order).await?;
                self.answer(Answer::Done).await?;
                self.held.make_another(parked);
                Ok(())
            }
            Request::Retire => {
                if !self.held.is_parked() {
                    return Err(refused("retire", "somebody has this room").into());
                }
                self.end(Duration::ZERO).await
            }
            Request::End { grace_ms } => self.end(Duration::from_millis(grace_ms)).await,
            Request::Exec { .. }
            | Request::Attach { .. }
            | Request::Programs
            | Request::Signal { .. }
            | Request::Input { .. }
            | Request::File(_)
            | Request::Forward { .. }
            | Request::CloseInput { .. }
            | Request::Resize { .. } => Err(io::Error::other("not about the room").into()),
        }
    }

    async fn end(&mut self, grace: Duration) -> Result<(), Trouble> {
        self.answer(Answer::Done).await?;
        self.held.over.send_replace(Some(Ending { why: Why::Stopped, grace }));
        // Until the shim ends, and with it the connection.
        std::future::pending().await
    }

    async fn exec(&mut self, exec: Exec, tag: Option<String>) -> Result<Arc<Program>, Trouble> {
        // A room that was frozen for want of use goes on for whoever wants it.
        if *self.held.paused.borrow() {
            self.held.resume().await?;
        }
        let moving = Arc::clone(&self.held);
        let _moving = moving.moving().await;
        Ok(self.held.room.exec(exec, tag).await?)
    }

    /// Passes on what a program says until it ends, and what its client does to it.
    async fn accompany(&mut self, program: &Program, mut tail: Tail) -> Result<(), Trouble> {
        let Self { from, to, .. } = self;
        let passed_on = async {
            while let Some(piece) = tail.next().await {
                pass(to, piece).await?;
            }
            Ok::<(), Trouble>(())
        };
        let fed = async {
            while let Some(frame) = read(from).await? {
                feed(program, frame).await?;
            }
            // A client that says no more may still listen.
            std::future::pending::<Result<(), Trouble>>().await
        };
        tokio::select! {
            done = passed_on => done?,
            broken = fed => broken?,
        }
        let ended = ended(program.wait().await);
        self.answer(ended).await
    }

    /// Passes on what is still there of what a program said.
    async fn recite(&mut self, program: &Program) -> Result<(), Trouble> {
        let mut tail = program.look(From::Start);
        let until = program.said();
        let mut passed = 0;
        while passed < until {
            let Some(piece) = tail.next().await else { break };
            passed += match &piece {
                Piece::Said { bytes, .. } => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                Piece::Lost { bytes } => *bytes,
            };
            pass(&mut self.to, piece).await?;
        }
        match program.finished() {
            Some(finished) => self.answer(ended(finished)).await,
            None => self.answer(Answer::Done).await,
        }
    }

    async fn input(&mut self, program: u32) -> Result<(), Trouble> {
        let program = self.program(program)?;
        while let Some(frame) = read(&mut self.from).await? {
            match frame {
                Frame::Bytes(Lane::In, bytes) if bytes.is_empty() => break,
                Frame::Bytes(Lane::In, bytes) => {
                    if program.write(&bytes).await.is_err() {
                        return Err(refused("program", "it reads nothing any more").into());
                    }
                }
                Frame::Bytes(Lane::Out | Lane::Err, _) | Frame::Message(_) => {
                    return Err(io::Error::other("not something to read").into());
                }
            }
        }
        self.answer(Answer::Done).await
    }

    async fn stats(&self) -> Result<Stats, RunError> {
        let room = &self.held.room;
        let usage = room.usage().await?;
        let running = room.programs().iter().filter(|it| it.finished().is_none()).count();
        let limit = room.plan().limits().memory.map(|it| it.0);
        Ok(Stats::of(&usage, limit, u32::try_from(running).unwrap_or(u32::MAX)))
    }

    fn room(&self) -> Result<RoomInfo, Trouble> {
        let room = &self.held.room;
        let record = self.held.record().clone();
        let (lifetime, left) = self.held.time();
        let plan = room.plan();
        Ok(RoomInfo {
            id: record.id,
            name: record.name,
            labels: record.labels,
            made: record.made,
            pool: record.pool,
            backend: room.backend().to_owned(),
            paused: *self.held.paused.borrow(),
            lifetime,
            left_seconds: left.map(|it| it.as_secs_f64()),
            upheld: room.upheld().clone(),
            missing: room.missing().clone(),
            plan: serde_json::to_value(&*plan).map_err(io::Error::other)?,
            dir: Some(Word(plan.start().as_path().into())),
            shim: std::process::id(),
        })
    }

    fn program(&self, id: u32) -> Result<Arc<Program>, RunError> {
        let none = || refused("program", &format!("the room has no program {id}"));
        self.held.room.program(id).ok_or_else(none)
    }

    pub(super) async fn answer(&mut self, answer: Answer) -> Result<(), Trouble> {
        Ok(say(&mut self.to, &answer).await?)
    }
}

async fn pass(to: &mut Mouth, piece: Piece) -> io::Result<()> {
    match piece {
        Piece::Said { which: Which::Stdout, bytes } => send(to, Lane::Out, &bytes).await,
        Piece::Said { which: Which::Stderr, bytes } => send(to, Lane::Err, &bytes).await,
        Piece::Lost { bytes } => say(to, &Answer::Lost { bytes }).await,
    }
}

/// Passes on what a client gives a program to read; an empty frame is the end of it.
async fn feed(program: &Program, frame: Frame) -> io::Result<()> {
    match frame {
        Frame::Bytes(Lane::In, bytes) if bytes.is_empty() => program.close_stdin().await,
        // One that has closed its input, or ended, reads nothing; that is its business.
        Frame::Bytes(Lane::In, bytes) => program.write(&bytes).await.unwrap_or_default(),
        Frame::Bytes(Lane::Out | Lane::Err, _) | Frame::Message(_) => {
            return Err(io::Error::other("not something to read"));
        }
    }
    Ok(())
}

fn named(signal: i32) -> Result<Signal, RunError> {
    let none = || refused("signal", &format!("{signal} is no signal"));
    Signal::from_named_raw(signal).ok_or_else(none)
}

fn refused(what: &'static str, why: &str) -> RunError {
    RunError::Room { what, why: why.to_owned() }
}

fn ended(finished: Finished) -> Answer {
    let wall_seconds = finished.wall.as_secs_f64();
    let (ending, trouble) = match finished.ending {
        Ok(ending) => (Some(ending), None),
        Err(trouble) => (None, Some(trouble)),
    };
    Answer::Ended { ending, trouble, wall_seconds }
}

fn info(program: &Program) -> ProgramInfo {
    let started = program.started().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let finished = program.finished();
    ProgramInfo {
        id: program.id(),
        pid: program.pid(),
        tag: program.tag().map(str::to_owned),
        argv: program.argv().iter().cloned().map(Word).collect(),
        dir: program.dir().to_owned(),
        terminal: program.has_terminal(),
        started,
        running: finished.is_none(),
        ending: finished.and_then(|it| it.ending.ok()),
        said: program.said(),
    }
}

/// Whether something can be asked of a room that nobody has yet.
fn is_for_parked(request: &Request) -> bool {
    matches!(
        request,
        Request::HandOut(_)
            | Request::Retire
            | Request::Inspect
            | Request::Stats
            | Request::Programs
            | Request::End { .. }
    )
}

fn of_journal(error: &JournalError) -> Answer {
    let kind = match error {
        JournalError::Taken(_) => "taken",
        JournalError::Name(_) => "name",
        JournalError::Busy(_) => "busy",
        JournalError::Unknown(_)
        | JournalError::Ambiguous { .. }
        | JournalError::Unreadable { .. }
        | JournalError::NoLayer
        | JournalError::System { .. } => "internal",
    };
    let causes = std::error::Error::source(error).map(ToString::to_string);
    Answer::Failed(Failed {
        kind: kind.to_owned(),
        message: error.to_string(),
        causes: causes.into_iter().collect(),
        hint: None,
        exit: 125,
    })
}

fn failed(error: &RunError) -> Answer {
    let mut causes = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    let kind = match error.kind() {
        ErrorKind::Denied => "denied",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::NotFound => "not_found",
        ErrorKind::NotExecutable => "not_executable",
        ErrorKind::Gone => "gone",
        ErrorKind::NoDir => "no_dir",
        ErrorKind::NoFile => "no_file",
        ErrorKind::Exists => "exists",
        ErrorKind::NotAFile => "not_a_file",
        ErrorKind::Forbidden => "forbidden",
        ErrorKind::DiskFull => "disk_full",
        ErrorKind::Busy => "busy",
        ErrorKind::Internal => "internal",
    };
    Answer::Failed(Failed {
        kind: kind.to_owned(),
        message: error.to_string(),
        causes,
        hint: error.hint().map(str::to_owned),
        exit: error.exit_code(),
    })
}
