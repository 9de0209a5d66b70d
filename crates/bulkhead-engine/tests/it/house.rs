//! An engine with the native backend, and a place for everything that it leaves behind.

use std::{
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use bulkhead_backends::{Backend, Native, Places};
use bulkhead_engine::{Console, Control, Engine, JsonLines, Outside, RunError};
use bulkhead_policy::Policy;
use bulkhead_spec::{Guarantee, Outcome, Stdin};
use tempfile::TempDir;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
        duplex,
    },
    sync::mpsc::UnboundedSender,
    task::JoinHandle,
};

use crate::{
    ask::Ask,
    traces::{MARK, Processes},
};

/// Everything that one test needs; removed with it.
pub(crate) struct House {
    dir: TempDir,
    pub(crate) engine: Arc<Engine>,
}

/// The native backend, keeping what it must find again below `dir`.
pub(crate) fn native(dir: &Path) -> Box<dyn Backend> {
    // Finding out may move this process to a cgroup of its own: one at a time.
    static PROBING: Mutex<()> = Mutex::new(());
    let probing = PROBING.lock().unwrap_or_else(PoisonError::into_inner);
    let bus = std::env::var_os("XDG_RUNTIME_DIR").map(|it| PathBuf::from(it).join("bus"));
    let places = Places { state: dir.join("state"), runtime: dir.join("runtime"), bus };
    let native = Native::probe(places);
    drop(probing);
    Box::new(native)
}

/// An engine that builds with `backends` and records below `dir`.
pub(crate) fn engine(dir: &Path, policy: Policy, backends: Vec<Box<dyn Backend>>) -> Engine {
    let ledger = JsonLines::open(&dir.join("ledger")).unwrap();
    Engine { policy, backends, ledger: Arc::new(ledger), outside: Outside::default() }
}

/// A name that no other sandbox of this host has.
pub(crate) fn new_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("test{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl House {
    pub(crate) fn new() -> Self {
        Self::build(|dir| engine(dir, Policy::default(), vec![native(dir)]))
    }

    pub(crate) fn build(engine: impl FnOnce(&Path) -> Engine) -> Self {
        let dir = TempDir::new().unwrap();
        // Links on the way are refused in a workspace, and TMPDIR may have some.
        let engine = engine(&dir.path().canonicalize().unwrap());
        let house = Self { dir, engine: Arc::new(engine) };
        std::fs::create_dir(house.workspace()).unwrap();
        house
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    /// A directory to work on.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("work")
    }

    /// The record, a line an event.
    pub(crate) fn ledger(&self) -> String {
        std::fs::read_to_string(self.path().join("ledger")).unwrap()
    }

    /// Runs the program to its end; its output is in the outcome.
    pub(crate) async fn run(&self, ask: Ask) -> Result<Outcome, RunError> {
        let (console, _control) = Console::captured(ask.keep);
        run(&self.engine, &new_id(), ask, console).await
    }

    /// As [`House::run`], with `change` made to the console.
    pub(crate) async fn run_on(
        &self,
        ask: Ask,
        change: impl FnOnce(&mut Console),
    ) -> Result<Outcome, RunError> {
        let (mut console, _control) = Console::captured(ask.keep);
        change(&mut console);
        run(&self.engine, &new_id(), ask, console).await
    }

    /// What a program that succeeds prints.
    pub(crate) async fn says(&self, ask: Ask) -> String {
        let outcome = self.run(ask).await.unwrap();
        let said = text(&outcome.stdout);
        let complaints = text(&outcome.stderr);
        assert_eq!(outcome.ending.exit_code(), 0, "{:?}: {said}{complaints}", outcome.ending);
        said
    }

    /// As [`House::run`] where the host lets the backend promise `guarantee`. Where it does not,
    /// the run must be refused for just that, and there is nothing more to see.
    pub(crate) async fn held(&self, guarantee: Guarantee, ask: Ask) -> Option<Outcome> {
        let outcome = self.run(ask).await;
        if self.engine.backends.iter().any(|it| it.upholds().contains(guarantee)) {
            return Some(outcome.unwrap());
        }
        say(&format!("{guarantee} cannot be upheld here: only that it is refused was tested"));
        let RunError::Unplaced { lacking, .. } = outcome.unwrap_err() else {
            panic!("it failed for another reason");
        };
        assert!(lacking.contains(guarantee), "{lacking}");
        None
    }

    /// Starts the program and talks to it.
    pub(crate) fn start(&self, mut ask: Ask) -> Running {
        let (mut console, control) = Console::captured(ask.keep);
        let (theirs, output) = duplex(64 * 1024);
        console.stdout = Some(Box::new(theirs));
        let input = if ask.exec.stdin == Stdin::Piped || ask.exec.terminal.is_some() {
            let (input, theirs) = duplex(64 * 1024);
            console.stdin = Some(Box::new(theirs));
            Some(input)
        } else {
            None
        };
        let id = new_id();
        ask.exec.env.insert(MARK.into(), id.clone().into());
        let (engine, name) = (Arc::clone(&self.engine), id.clone());
        let task = tokio::spawn(async move { run(&engine, &name, ask, console).await });
        Running { id, task, control, input, output: BufReader::new(output) }
    }
}

async fn run(
    engine: &Engine,
    id: &str,
    ask: Ask,
    console: Console,
) -> Result<Outcome, RunError> {
    let placed = engine.prepare(id, ask.spec, ask.exec).await?;
    engine.run(&placed, console).await
}

/// A program that runs.
pub(crate) struct Running {
    pub(crate) id: String,
    pub(crate) task: JoinHandle<Result<Outcome, RunError>>,
    control: UnboundedSender<Control>,
    input: Option<DuplexStream>,
    output: BufReader<DuplexStream>,
}

impl Running {
    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Every process of its sandbox, once it has said that it is ready.
    pub(crate) async fn ready(&mut self) -> Processes {
        assert_eq!(self.line().await, "ready");
        let processes = Processes::of(&self.id);
        assert!(!processes.is_empty(), "no process of {} was found", self.id);
        processes
    }

    pub(crate) fn tell(&self, control: Control) {
        self.control.send(control).unwrap();
    }

    pub(crate) async fn types(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// Types nothing more.
    pub(crate) fn ends_input(&mut self) {
        self.input = None;
    }

    /// Waits until nobody takes what is typed.
    pub(crate) async fn refuses_input(&mut self) {
        let input = self.input.as_mut().unwrap();
        while input.write_all(b"more").await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// How it ended.
    pub(crate) async fn end(mut self) -> Outcome {
        let mut rest = Vec::new();
        let (outcome, read) = tokio::join!(self.task, self.output.read_to_end(&mut rest));
        read.unwrap();
        outcome.unwrap().unwrap()
    }
}

/// What was kept of a stream.
pub(crate) fn text(stream: &bulkhead_spec::Stream) -> String {
    String::from_utf8([&*stream.head, &*stream.tail].concat()).unwrap()
}

#[expect(clippy::print_stderr, reason = "a test says what it could not test")]
fn say(text: &str) {
    eprintln!("{text}");
}
