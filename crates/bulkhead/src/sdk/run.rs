//! Programs of a sandbox.

use std::{borrow::Cow, ffi::OsString, pin::Pin, time::Duration};

use bulkhead_engine::{
    room::Which,
    rooms::{Attached, Client, Ear, Hand, Reply},
};
use bulkhead_spec::{Ending, Exec, GuestPath, Span, Stdin, Terminal};
use rustix::process::Signal;

use super::SandboxError;

/// A program to be run. Awaited, it runs to its end; [`Run::start`] leaves it running.
#[derive(Debug)]
#[must_use = "nothing runs before it is awaited or started"]
pub struct Run<'a> {
    client: &'a Client,
    exec: Exec,
    dir: Option<String>,
    input: Option<Vec<u8>>,
    keep: usize,
}

/// What came of a program.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended; the thing that ended it says so.
    pub ending: Ending,
    /// The exit code by which a shell knows that: 124 for a deadline, 137 for want of memory.
    pub exit_code: u8,
    /// What it wrote, as far as that was kept.
    pub stdout: Vec<u8>,
    /// What it complained about, likewise.
    pub stderr: Vec<u8>,
    /// Whether less was kept than was written.
    pub truncated: bool,
    /// How long it ran.
    pub duration: Duration,
}

impl Output {
    /// What it wrote, as text.
    pub fn stdout(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// What it complained about, as text.
    pub fn stderr(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }

    /// Whether it exited with 0.
    pub fn success(&self) -> bool {
        self.ending == Ending::Exited { code: 0 }
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Process {
    client: Client,
    ear: Ear,
    hand: Hand,
}

/// What comes from a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It wrote something.
    Stdout(Vec<u8>),
    /// It complained.
    Stderr(Vec<u8>),
    /// It ended so, after so long.
    Ended(Ending, Duration),
}

impl<'a> Run<'a> {
    pub(super) fn new(client: &'a Client, argv: Vec<OsString>) -> Self {
        let exec = Exec { argv, ..Exec::default() };
        Self { client, exec, dir: None, input: None, keep: 16 << 20 }
    }

    /// Where it starts, as the sandbox sees it.
    pub fn cwd(mut self, dir: &str) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// A variable on top of the sandbox's.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.exec.env.insert(name.into(), value.into());
        self
    }

    /// How long it may run.
    pub fn timeout(mut self, length: Duration) -> Self {
        self.exec.timeout = Some(Span(length));
        self
    }

    /// What it reads; nothing if not said.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// It runs on a terminal of this size.
    pub fn terminal(mut self, rows: u16, columns: u16) -> Self {
        self.exec.terminal = Some(Terminal { rows, columns });
        self
    }

    /// How much of each stream is kept in its [`Output`]; 16 MiB if not said.
    pub fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// Starts it and leaves it running; what it reads is then written by
    /// [`Process::write`].
    pub async fn start(mut self) -> Result<Process, SandboxError> {
        let input = self.input.take();
        self.exec.stdin = Stdin::Piped;
        let client = self.client.clone();
        let Attached { ear, hand, .. } = self.begin().await?;
        let mut process = Process { client, ear, hand };
        if let Some(input) = input {
            process.write(&input).await?;
        }
        Ok(process)
    }

    async fn begin(self) -> Result<Attached, SandboxError> {
        let mut exec = self.exec;
        if let Some(dir) = self.dir {
            let dir: Result<GuestPath, _> = dir.parse();
            exec.dir = Some(dir.map_err(|error| SandboxError::System {
                action: "start there",
                source: std::io::Error::other(error),
            })?);
        }
        Ok(self.client.exec(exec, None).await?)
    }

    async fn run(mut self) -> Result<Output, SandboxError> {
        let (keep, input) = (self.keep, self.input.take());
        self.exec.stdin = if input.is_some() { Stdin::Piped } else { Stdin::Empty };
        let client = self.client.clone();
        let Attached { mut ear, mut hand, .. } = self.begin().await?;
        let mut left = Left { client, program: Some(ear.program) };
        let feed = async {
            if let Some(input) = input
                && hand.write(&input).await.is_ok()
            {
                hand.close_input().await.unwrap_or_default();
            }
        };
        let (mut stdout, mut stderr, mut truncated) = (Vec::new(), Vec::new(), false);
        let hear = async {
            loop {
                let (to, bytes) = match ear.next().await? {
                    Reply::Said(Which::Stdout, bytes) => (&mut stdout, bytes),
                    Reply::Said(Which::Stderr, bytes) => (&mut stderr, bytes),
                    Reply::Lost(_) | Reply::Running => continue,
                    Reply::Ended(ending, wall) => return Ok::<_, SandboxError>((ending, wall)),
                };
                let room = keep.saturating_sub(to.len()).min(bytes.len());
                truncated |= room < bytes.len();
                to.extend_from_slice(bytes.get(..room).unwrap_or_default());
            }
        };
        let (ended, ()) = tokio::join!(hear, feed);
        left.program = None;
        let (ending, duration) = ended?;
        let ending = ending.map_err(SandboxError::Confused)?;
        let exit_code = ending.exit_code();
        Ok(Output { ending, exit_code, stdout, stderr, truncated, duration })
    }
}

impl<'a> IntoFuture for Run<'a> {
    type Output = Result<Output, SandboxError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// Runs it to its end.
    ///
    /// # Cancellation
    /// Dropping the future ends the program.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Ends a program for whose end nobody waits any more.
struct Left {
    client: Client,
    program: Option<u32>,
}

impl Drop for Left {
    fn drop(&mut self) {
        let (Some(program), Ok(runtime)) =
            (self.program, tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let client = self.client.clone();
        runtime.spawn(async move {
            client.signal(program, Signal::KILL).await.unwrap_or_default();
        });
    }
}

impl Process {
    /// How the sandbox calls it.
    pub fn id(&self) -> u32 {
        self.ear.program
    }

    /// What comes next; nothing comes after [`Said::Ended`].
    pub async fn next(&mut self) -> Result<Said, SandboxError> {
        loop {
            match self.ear.next().await? {
                Reply::Said(Which::Stdout, bytes) => return Ok(Said::Stdout(bytes)),
                Reply::Said(Which::Stderr, bytes) => return Ok(Said::Stderr(bytes)),
                Reply::Ended(Ok(ending), wall) => return Ok(Said::Ended(ending, wall)),
                Reply::Ended(Err(trouble), _) => return Err(SandboxError::Confused(trouble)),
                Reply::Lost(_) | Reply::Running => {}
            }
        }
    }

    /// Writes to what it reads.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), SandboxError> {
        self.hand.write(bytes).await.map_err(SandboxError::Unreachable)
    }

    /// Ends what it reads.
    pub async fn close_stdin(&mut self) -> Result<(), SandboxError> {
        self.hand.close_input().await.map_err(SandboxError::Unreachable)
    }

    /// Sends a signal, by its number, to it and its process group.
    pub async fn signal(&self, number: i32) -> Result<(), SandboxError> {
        let signal = Signal::from_named_raw(number).ok_or_else(|| SandboxError::System {
            action: "send a signal that there is not",
            source: std::io::ErrorKind::InvalidInput.into(),
        })?;
        Ok(self.client.signal(self.id(), signal).await?)
    }

    /// Tells its terminal a new size.
    pub async fn resize(&self, rows: u16, columns: u16) -> Result<(), SandboxError> {
        Ok(self.client.resize(self.id(), Terminal { rows, columns }).await?)
    }

    /// Waits for its end; what it says meanwhile is dropped.
    pub async fn wait(&mut self) -> Result<(Ending, Duration), SandboxError> {
        loop {
            if let Said::Ended(ending, wall) = self.next().await? {
                return Ok((ending, wall));
            }
        }
    }
}
