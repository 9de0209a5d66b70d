//! The engine in this process.

use std::{
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bulkhead_backends::{Native, Places};
use bulkhead_engine::{
    Engine, JsonLines, Outside, RunError,
    rooms::{Admission, Client, Journal, Life, Quota, Ready, Record, Reserve, hold},
};
use bulkhead_policy::Policy;
use bulkhead_server::{Base, record, words::NewSandbox};
use bulkhead_spec::Spec;
use tokio::sync::oneshot;

use super::SandboxError;

/// Where programs of a sandbox begin.
const HOME: &str = "/home/user";
/// Where they find others.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An engine of this process: its sandboxes are built by the native backend, and end with it.
pub struct Local {
    engine: Arc<Engine>,
    journal: Journal,
    base: Base,
    /// Removed with everything in it, if nobody named a place.
    _own: Option<tempfile::TempDir>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Local")
    }
}

impl Local {
    /// An engine that keeps what it needs in a directory of its own, which goes with it.
    pub fn new() -> Result<Self, SandboxError> {
        let failed =
            |source| SandboxError::System { action: "make a directory for sandboxes", source };
        let own = tempfile::Builder::new().prefix("bulkhead-").tempdir().map_err(failed)?;
        let made = Self::at(own.path(), &Policy::default())?;
        Ok(Self { _own: Some(own), ..made })
    }

    /// An engine that keeps its journal, its record and its images below `dir`, and follows
    /// `policy`.
    pub fn at(dir: &Path, policy: &Policy) -> Result<Self, SandboxError> {
        let failed =
            |source| SandboxError::System { action: "use the directory of sandboxes", source };
        let (state, run) = (dir.join("state"), dir.join("run"));
        for dir in [&state, &run] {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(failed)?;
        }
        let uid = rustix::process::geteuid();
        // All of root's sandboxes claim their user ids in one place.
        let runtime = if uid.is_root() { PathBuf::from("/run/bulkhead") } else { run.clone() };
        let bus = PathBuf::from(format!("/run/user/{}/bus", uid.as_raw()));
        let places = Places { state: state.clone(), runtime, bus: Some(bus) };
        let images = bulkhead_image::Images::new(bulkhead_image::Settings {
            cache: dir.join("images"),
            credentials: Vec::new(),
            sockets: ["/var/run/docker.sock", "/run/podman/podman.sock"]
                .map(PathBuf::from)
                .into(),
            tell: Arc::new(|_| ()),
        });
        let native = Native::probe(places).with_images(images);
        let ledger = JsonLines::open(&state.join("events.jsonl"))?;
        Ok(Self {
            engine: Arc::new(Engine {
                policy: policy.clone(),
                backends: vec![Box::new(native)],
                ledger: Arc::new(ledger),
                outside: Outside::default(),
            }),
            journal: Journal::new(&state, &run),
            base: base(policy, &state).map_err(failed)?,
            _own: None,
        })
    }

    /// Makes a sandbox, held by a task of this process.
    pub(super) async fn make(
        self: &Arc<Self>,
        id: &str,
        wanted: NewSandbox,
    ) -> Result<Client, SandboxError> {
        let record: Record = record(&self.base, id, wanted)?;
        self.base.admission.check().map_err(RunError::from)?;
        let (said, hears) = oneshot::channel();
        let local = Arc::clone(self);
        tokio::spawn(async move {
            let tell = |ready| drop(said.send(ready));
            // How it ended is on record; whoever holds it has been told by its stream.
            let engine = Arc::clone(&local.engine);
            hold(engine, &local.journal, record, tell).await.unwrap_or_default();
        });
        let gone = |_| SandboxError::System {
            action: "make the sandbox",
            source: io::ErrorKind::BrokenPipe.into(),
        };
        match hears.await.map_err(gone)? {
            Ready::Yes => Ok(Client::new(self.journal.socket(id))),
            Ready::Journal(error) => Err(error.into()),
            Ready::Room(error) => Err(error.into()),
            Ready::System(source) => {
                Err(SandboxError::System { action: "make the sandbox", source })
            }
        }
    }

    /// The ids of those that live.
    pub(super) fn living(&self) -> Result<Vec<String>, SandboxError> {
        Ok(self.journal.living()?.into_iter().map(|it| it.record.id).collect())
    }

    /// The sandbox of this id or name.
    pub(super) fn find(&self, text: &str) -> Result<(String, Client), SandboxError> {
        let found = self.journal.find(text)?;
        if found.life != Life::Alive {
            return Err(RunError::Gone.into());
        }
        let id = found.record.id;
        let client = Client::new(self.journal.socket(&id));
        Ok((id, client))
    }

    pub(super) fn forget(&self, id: &str) -> Result<(), SandboxError> {
        Ok(self.journal.forget(id)?)
    }
}

fn base(policy: &Policy, state: &Path) -> io::Result<Base> {
    let mut spec =
        Spec { home: Some(HOME.parse().map_err(io::Error::other)?), ..Spec::default() };
    let env = [
        ("HOME", HOME),
        ("USER", "user"),
        ("LOGNAME", "user"),
        ("SHELL", "/bin/sh"),
        ("PATH", PATH),
        ("LANG", "C.UTF-8"),
    ];
    spec.env.extend(env.map(|(name, value)| (name.into(), value.into())));
    Ok(Base {
        spec,
        policy: policy.clone(),
        backend: "native".to_owned(),
        runtime: None,
        program: PathBuf::from("/proc/self/exe"),
        gateways: state.join("gateways"),
        state: state.to_owned(),
        admission: Admission { reserve: Reserve::default(), state: state.to_owned() },
        quota: Quota::default(),
        pool: 0,
    })
}
