//! A sandbox with a program in it, for attacks.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bulkhead_backends::{Backend, Doors, Process, Sandbox};
use bulkhead_policy::{Plan, Policy, resolve};
use bulkhead_spec::{
    Access, Ending, EnvFiles, Exec, Guarantee, GuestPath, HostPath, Limits, Mount, Spec, Usage,
    Walls, Workspace,
};
use libtest_mimic::Failed;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    runtime::Runtime,
    task::JoinHandle,
    time::timeout,
};

use crate::attack::Verdict;

/// What every script can use.
const PRELUDE: &str = include_str!("prelude.py");
/// The host's own, on both sides; not one that a version manager put before it.
const PYTHON: &str = "/usr/bin/python3";
/// No attack takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long output may take to end after its sandbox has.
const STREAMS_END: Duration = Duration::from_secs(2);

/// A sandbox to be, and its surroundings on the host.
pub(crate) struct Room<'a> {
    backend: &'a dyn Backend,
    runtime: Runtime,
    /// What the sandbox is to be; a workspace and nothing else to begin with.
    pub(crate) spec: Spec,
    workspace: PathBuf,
    outside: PathBuf,
    _dirs: Option<[TempDir; 2]>,
}

/// What a program said, and how it and its sandbox ended.
pub(crate) struct Said {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    stderr: String,
    /// Whether the output ended when the sandbox did.
    pub(crate) output_ended: bool,
}

/// A sandbox with a running program.
pub(crate) struct Inside<'r> {
    /// The name by which the host knows the sandbox.
    pub(crate) id: String,
    runtime: &'r Runtime,
    sandbox: Box<dyn Sandbox>,
    process: Box<dyn Process>,
    stdout: Captured,
    stderr: Captured,
}

/// Output on its way.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl<'a> Room<'a> {
    pub(crate) fn new(backend: &'a dyn Backend) -> Result<Self, Failed> {
        let [one, other] = [tempfile::tempdir()?, tempfile::tempdir()?];
        let (workspace, outside) = (one.path().canonicalize()?, other.path().canonicalize()?);
        let room = Self::at(backend, workspace, outside)?;
        Ok(Self { _dirs: Some([one, other]), ..room })
    }

    /// A room in directories of somebody else's.
    pub(crate) fn at(
        backend: &'a dyn Backend,
        workspace: PathBuf,
        outside: PathBuf,
    ) -> Result<Self, Failed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let walls = if is_none(backend) { Walls::Waived } else { Walls::Up };
        let spec = Spec {
            workspace: Some(Workspace {
                dir: host_path(&workspace)?,
                access: Access::ReadWrite,
                env_files: EnvFiles::Hidden,
                unprotected: Vec::new(),
            }),
            walls,
            ..Spec::default()
        };
        Ok(Self { backend, runtime, spec, workspace, outside, _dirs: None })
    }

    /// The directory that is shared.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// A directory beside it that is not.
    pub(crate) fn outside(&self) -> &Path {
        &self.outside
    }

    /// A word that no other process has among its arguments.
    pub(crate) fn token(&self) -> String {
        self.outside.display().to_string()
    }

    /// Whether a container daemon builds the sandbox, which adds a few things of its own to it.
    pub(crate) fn is_contained(&self) -> bool {
        matches!(self.backend.name(), "docker" | "podman")
    }

    /// Whether another kernel than the host's serves its programs.
    pub(crate) fn is_shielded(&self) -> bool {
        self.backend.upholds().contains(Guarantee::HostKernelShielded)
    }

    /// Whether there are no walls.
    pub(crate) fn is_open(&self) -> bool {
        is_none(self.backend)
    }

    /// Says what may be done with the workspace.
    pub(crate) fn set_access(&mut self, access: Access) {
        if let Some(workspace) = &mut self.spec.workspace {
            workspace.access = access;
        }
    }

    /// Shares a directory at its own path.
    pub(crate) fn share(&mut self, dir: &Path, access: Access) -> Result<(), Failed> {
        let to = GuestPath::try_from(dir.to_owned())?;
        self.spec.mounts.push(Mount { from: host_path(dir)?, to, access });
        Ok(())
    }

    /// Runs `script` in a fresh sandbox, and takes its last line for the verdict.
    pub(crate) fn attack(&self, script: &str, args: &[&str]) -> Result<Verdict, Failed> {
        self.says(script, args)?.verdict()
    }

    /// Runs `script` in a fresh sandbox, destroys the sandbox and returns what the script said.
    pub(crate) fn says(&self, script: &str, args: &[&str]) -> Result<Said, Failed> {
        let mut inside = self.enter(script, args)?;
        let ending = inside.wait()?;
        inside.destroy(ending)
    }

    /// Starts `script` in a fresh sandbox.
    pub(crate) fn enter(&self, script: &str, args: &[&str]) -> Result<Inside<'_>, Failed> {
        self.enter_at(None, script, args)
    }

    /// The same, in another directory than the workspace.
    pub(crate) fn enter_at(
        &self,
        dir: Option<PathBuf>,
        script: &str,
        args: &[&str],
    ) -> Result<Inside<'_>, Failed> {
        let script = format!("{PRELUDE}\n{script}");
        let python = [PYTHON, "-I", "-S", "-c", &script];
        self.start(dir, &[&python, args].concat())
    }

    /// Runs a program that is no script in a fresh sandbox, and destroys the sandbox.
    pub(crate) fn runs(&self, argv: &[&str]) -> Result<Said, Failed> {
        let mut inside = self.start(None, argv)?;
        let ending = inside.wait()?;
        inside.destroy(ending)
    }

    fn start(&self, dir: Option<PathBuf>, argv: &[&str]) -> Result<Inside<'_>, Failed> {
        let plan = self.plan()?;
        let env = [("PATH".into(), "/usr/bin:/bin".into())].into();
        let dir = dir.map(GuestPath::try_from).transpose()?;
        let argv = argv.iter().map(Into::into).collect();
        let exec = plan.admit(Exec { argv, dir, env, ..Exec::default() })?;
        self.runtime.block_on(async {
            let id = unique_id();
            let sandbox = self.backend.create(&id, &plan).await.map_err(chain)?;
            let mut process = sandbox.exec(&exec).await.map_err(chain)?;
            let streams = process.take_streams().ok_or("a program came without streams")?;
            let stderr = streams.stderr.ok_or("a program came without its complaints")?;
            let (stdout, stderr) = (capture(streams.stdout), capture(stderr));
            Ok(Inside { id, runtime: &self.runtime, sandbox, process, stdout, stderr })
        })
    }

    /// Has the backend remove what a killed one left.
    pub(crate) fn sweep(&self) -> Result<(), Failed> {
        let swept = self.runtime.block_on(async { self.backend.sweep().await });
        swept.map(drop).map_err(chain)
    }

    /// Builds the sandbox; a wall that does not stand is told at the first program.
    pub(crate) fn build(&self) -> Result<(), Failed> {
        self.runs(&["/bin/true"]).map(drop)
    }

    fn plan(&self) -> Result<Plan, Failed> {
        let plan = resolve(self.spec.clone(), &Policy::default())?;
        if self.is_open() {
            // Nobody would place it there: the limits that it asks for are held by nothing.
            return Ok(plan);
        }
        let settled = plan.settle(&self.backend.upholds());
        settled.map(|it| it.plan).map_err(|it| format!("{it} cannot be held").into())
    }
}

impl Said {
    /// What the last line of a script says.
    pub(crate) fn verdict(&self) -> Result<Verdict, Failed> {
        match self.stdout.lines().last() {
            Some("held") => Ok(Verdict::Held),
            Some(line) if line.starts_with("broken") => Ok(Verdict::Broken(line.to_owned())),
            Some(_) | None => Err(format!("the attack came to no verdict: {self}").into()),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}\n{}\n{}", self.ending, self.stdout, self.stderr)
    }
}

impl Inside<'_> {
    /// What it has said until now.
    pub(crate) fn said(&self) -> String {
        // Only while somebody waits is anything read.
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        self.stdout.text()
    }

    /// Waits until it has said `word`.
    pub(crate) fn hear(&self, word: &str) -> Result<(), Failed> {
        crate::host::eventually(&format!("the program says `{word}`"), || {
            self.said().contains(word).then_some(())
        })
    }

    /// Where programs inside meet the gateway.
    pub(crate) fn take_doors(&self) -> Option<Doors> {
        self.sandbox.take_doors()
    }

    /// Has the sandbox hold other limits; says whether it does.
    pub(crate) fn bound(&self, limits: &Limits) -> bool {
        let bounds = self.sandbox.bounds();
        bounds.is_some_and(|it| self.runtime.block_on(it.bound(limits)).is_ok())
    }

    pub(crate) fn usage(&self) -> Result<Usage, Failed> {
        self.sandbox.usage().map_err(chain)
    }

    /// Waits for the program's end.
    pub(crate) fn wait(&mut self) -> Result<Ending, Failed> {
        match self.runtime.block_on(async { timed(self.process.wait()).await }) {
            Some(ending) => ending.map_err(chain),
            None => Err(format!("the program does not end; it said: {}", self.said()).into()),
        }
    }

    /// Ends every program, and says how long that took.
    pub(crate) fn kill(&mut self) -> Result<Duration, Failed> {
        let started = Instant::now();
        let killed = self.runtime.block_on(async { timed(self.sandbox.kill()).await });
        killed.ok_or("the sandbox does not end")?.map_err(chain)?;
        Ok(started.elapsed())
    }

    /// Lets go of the sandbox without a word.
    pub(crate) fn abandon(self) {
        drop(self);
    }

    /// Ends the sandbox and takes what was said.
    pub(crate) fn destroy(self, ending: Ending) -> Result<Said, Failed> {
        let Self { id: _, runtime, sandbox, process, stdout, stderr } = self;
        drop(process);
        runtime.block_on(async {
            let destroyed = timed(sandbox.destroy()).await;
            destroyed.ok_or("the sandbox does not end")?.map_err(chain)?;
            let (stdout, out_ended) = stdout.finish().await;
            let (stderr, err_ended) = stderr.finish().await;
            Ok(Said { ending, stdout, stderr, output_ended: out_ended && err_ended })
        })
    }
}

impl Captured {
    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// All of it, and whether it has ended.
    async fn finish(mut self) -> (String, bool) {
        let ended = timeout(STREAMS_END, &mut self.reader).await.is_ok();
        self.reader.abort();
        (self.text(), ended)
    }
}

fn capture(mut from: Box<dyn AsyncRead + Send + Unpin>) -> Captured {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&bytes);
    let reader = tokio::spawn(async move {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            let read = chunk.get(..count).unwrap_or_default();
            into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(read);
        }
    });
    Captured { bytes, reader }
}

/// What comes of `future`, unless something hangs.
async fn timed<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(PATIENCE, future).await.ok()
}

fn is_none(backend: &dyn Backend) -> bool {
    backend.name() == "none"
}

fn unique_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("conformance-{}-{next}", std::process::id())
}

pub(crate) fn host_path(path: &Path) -> Result<HostPath, Failed> {
    Ok(HostPath::try_from(path.canonicalize()?)?)
}

/// An error with all that led to it.
pub(crate) fn chain(error: impl std::error::Error) -> Failed {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.into()
}
