//! A program in a room, as those see it who did not start it.

use std::{
    ffi::OsString,
    io,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use bulkhead_policy::ExecPlan;
use bulkhead_spec::{Ending, Terminal};
use rustix::process::Signal;
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    sync::{Mutex, mpsc, watch},
};

use super::ring::{From, Ring, Tail, Which};
use crate::{Control, pump::Sink};

/// How a program in a room ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How; or why that is not known.
    pub ending: Result<Ending, String>,
    /// How long it ran.
    pub wall: Duration,
}

/// A program in a room: running, or ended and not yet forgotten.
#[derive(Debug)]
pub struct Program {
    id: u32,
    pid: u32,
    tag: Option<String>,
    argv: Vec<OsString>,
    dir: String,
    terminal: bool,
    started: SystemTime,
    pub(super) since: Instant,
    pub(super) ring: Arc<Ring>,
    stdin: Mutex<Option<DuplexStream>>,
    control: mpsc::UnboundedSender<Control>,
    end: watch::Receiver<Option<Finished>>,
}

/// What the room keeps of a program while it runs.
pub(super) struct Hold {
    pub(super) control: mpsc::UnboundedReceiver<Control>,
    pub(super) end: watch::Sender<Option<Finished>>,
}

impl Program {
    pub(super) fn new(
        (id, pid): (u32, u32),
        tag: Option<String>,
        exec: &ExecPlan,
        ring: Arc<Ring>,
        stdin: Option<DuplexStream>,
    ) -> (Arc<Self>, Hold) {
        let (control, orders) = mpsc::unbounded_channel();
        let (ended, end) = watch::channel(None);
        let program = Self {
            id,
            pid,
            tag,
            argv: exec.argv().to_vec(),
            dir: exec.dir().to_string(),
            terminal: exec.terminal().is_some(),
            started: SystemTime::now(),
            since: Instant::now(),
            ring,
            stdin: Mutex::new(stdin),
            control,
            end,
        };
        (Arc::new(program), Hold { control: orders, end: ended })
    }

    /// How the room calls it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its process as the sandbox counts, for those inside. On the host it means nothing.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How its caller calls it.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The program and its arguments.
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// Where it started, escaped.
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// Whether it runs on a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal
    }

    /// When it started, by the wall clock: for display.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// How it ended, if it has.
    pub fn finished(&self) -> Option<Finished> {
        self.end.borrow().clone()
    }

    /// Waits for its end.
    pub async fn wait(&self) -> Finished {
        let mut end = self.end.clone();
        loop {
            if let Some(finished) = end.borrow_and_update().clone() {
                return finished;
            }
            if end.changed().await.is_err() {
                let ending = Err("the room went away".to_owned());
                return Finished { ending, wall: self.since.elapsed() };
            }
        }
    }

    /// Reads what it says, losing nothing from here on: the program waits for its reader.
    pub fn attach(&self, from: From) -> Tail {
        self.ring.attach(from)
    }

    /// Reads what it says, as far as that is still there.
    pub fn look(&self, from: From) -> Tail {
        self.ring.look(from)
    }

    /// How much it has said in all.
    pub fn said(&self) -> u64 {
        self.ring.total()
    }

    /// Writes to what it reads, as soon as it has room.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *self.stdin.lock().await {
            Some(stdin) => stdin.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends what it reads.
    pub async fn close_stdin(&self) {
        self.stdin.lock().await.take();
    }

    /// Sends a signal to it and its process group.
    pub fn signal(&self, signal: Signal) {
        self.tell(Control::Signal(signal));
    }

    /// Ends it, now.
    pub fn kill(&self) {
        self.tell(Control::Kill);
    }

    /// Tells its terminal a new size.
    pub fn resize(&self, terminal: Terminal) {
        self.tell(Control::Resize(terminal));
    }

    /// One that has ended hears nothing more, and need not.
    fn tell(&self, control: Control) {
        self.control.send(control).unwrap_or_default();
    }
}

/// The end of a program's stream that leads into its ring.
pub(super) struct IntoRing {
    pub(super) ring: Arc<Ring>,
    pub(super) which: Which,
}

#[async_trait::async_trait]
impl Sink for IntoRing {
    async fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ring.put(self.which, bytes).await;
        Ok(())
    }
}
