//! Puts the engine together: rules, backends and the record.

mod offer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bulkhead_backends::{Backend, Places};
use bulkhead_engine::{Engine, JsonLines, Ledger, Outside, RunError};
use bulkhead_image::{Images, Settings};
use bulkhead_linux::{
    inherited,
    prompt::{self, Children},
};
use bulkhead_policy::Policy;
use bulkhead_spec::Event;
use rustix::process::{Resource, getrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::{
    codes::Code,
    commands::egress,
    config::{ConfigError, Environment, Paths, shown},
    failure::Failure,
    outside,
    printer::Printer,
};

pub(crate) use offer::{Wanted, native, offer, offer_with};

/// With fewer open files nothing can be done to its end, and some parts below us do not fail but
/// panic.
const FEWEST_FILES: u64 = 64;

/// What waits for everything else.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    // As much room as one command has use for: it is paid for when it is first touched.
    started(Builder::new_current_thread().max_io_events_per_tick(64))
}

/// The same for many clients at once, two of whom may need the processor.
pub(crate) fn threads() -> Result<Runtime, Failure> {
    started(
        Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(|| prompt::ask(Children::Usual)),
    )
}

/// How many files this process may open, if those are too few.
pub(crate) fn too_few_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current.filter(|it| *it < FEWEST_FILES)
}

fn started(builder: &mut Builder) -> Result<Runtime, Failure> {
    let failure = || Failure::new(Code::System, "could not start");
    if let Some(most) = too_few_files() {
        let few = failure().because(format!("this process may open {most} files"));
        return Err(few.hint(format!("type: ulimit -n 1024 (at least {FEWEST_FILES})")));
    }
    builder.enable_all().build().map_err(|error| failure().because(error))
}

/// Is told what takes long.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Where backends keep what they must find again.
pub(crate) fn places(paths: &Paths, environment: &Environment) -> Result<Places, Failure> {
    let (Some(state), Some(runtime)) = (&paths.state, &paths.runtime) else {
        return Err(ConfigError::Homeless.into());
    };
    Ok(Places { state: state.clone(), runtime: runtime.clone(), bus: bus(environment) })
}

/// Where images come from and go to; `None` for somebody without a place for a cache.
pub(crate) fn images(paths: &Paths, environment: &Environment, tell: &Tell) -> Option<Images> {
    let runtime = environment.dir("XDG_RUNTIME_DIR");
    let docker = environment.dir("DOCKER_CONFIG");
    let docker = docker.or_else(|| environment.home().map(|home| home.join(".docker")));
    let credentials = [
        environment.dir("REGISTRY_AUTH_FILE"),
        docker.map(|dir| dir.join("config.json")),
        runtime.as_ref().map(|dir| dir.join("containers/auth.json")),
    ];
    let named =
        environment.get("DOCKER_HOST").and_then(|it| it.to_str()?.strip_prefix("unix://"));
    let usual = || {
        let own = ["docker.sock", "podman/podman.sock"];
        let own = runtime.iter().flat_map(|dir| own.map(|name| dir.join(name)));
        let all = ["/var/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from);
        all.into_iter().chain(own).collect()
    };
    let sockets = named.map_or_else(usual, |named| vec![PathBuf::from(named)]);
    Some(Images::new(Settings {
        cache: paths.cache.as_ref()?.join("images"),
        credentials: credentials.into_iter().flatten().collect(),
        sockets,
        tell: Arc::clone(tell),
    }))
}

/// The socket of this user's service manager.
fn bus(environment: &Environment) -> Option<PathBuf> {
    let address = environment.get("DBUS_SESSION_BUS_ADDRESS").and_then(|it| it.to_str());
    let named = address.and_then(|it| it.strip_prefix("unix:path="));
    let named = named.and_then(|it| it.split([',', ';']).next()).map(PathBuf::from);
    named.or_else(|| environment.dir("XDG_RUNTIME_DIR").map(|dir| dir.join("bus")))
}

/// An engine that writes everything down.
pub(crate) fn recording(
    policy: Policy,
    backends: Vec<Box<dyn Backend>>,
    paths: &Paths,
    environment: &Environment,
    listeners: Listeners,
) -> Result<Engine, Failure> {
    let events = paths.events().ok_or(ConfigError::Homeless)?;
    let own = JsonLines::open(&events).map_err(|error| Failure::of_run(&error))?;
    let ledger: Arc<dyn Ledger> = match listeners {
        Listeners { copy: None, printer: None } => Arc::new(own),
        Listeners { copy, printer } => Arc::new(Heard { own, copy, printer }),
    };
    let outside = outside::of(environment, paths)?;
    Ok(Engine { policy, backends, ledger, outside })
}

/// An engine that only answers questions.
pub(crate) fn silent(policy: Policy, backends: Vec<Box<dyn Backend>>) -> Engine {
    Engine { policy, backends, ledger: Arc::new(Nowhere), outside: Outside::default() }
}

/// Where a copy of the events goes: `FILE` or `fd:N`.
pub(crate) fn copy_to(text: &Path) -> Result<JsonLines, Failure> {
    let refused = |why: &str| {
        let what = format!("cannot write events to `{}`", shown(text));
        Failure::new(Code::Argument, what).because(why)
    };
    if let Some(number) = text.to_str().and_then(|it| it.strip_prefix("fd:")) {
        // Not opened anew by its path: others may write to it too, and a second opening would
        // write over what they wrote.
        let number = number.parse::<u16>().map_err(|_| refused("that is no descriptor"))?;
        let copy = inherited::copy(number.into())
            .map_err(|_| refused("there is no such open descriptor"))?;
        return Ok(JsonLines::over(copy.into(), text));
    }
    // A link in the workspace may have been laid by an earlier run.
    if text.symlink_metadata().is_ok_and(|it| it.is_symlink()) {
        return Err(refused("it is a symbolic link"));
    }
    JsonLines::open(text).map_err(|error| Failure::of_run(&error))
}

/// Who hears of events besides the record.
#[derive(Default)]
pub(crate) struct Listeners {
    /// A copy of the record.
    pub(crate) copy: Option<JsonLines>,
    /// Who tells the user at once what was refused.
    pub(crate) printer: Option<Printer>,
}

/// The record, and others who hear of it.
struct Heard {
    own: JsonLines,
    copy: Option<JsonLines>,
    printer: Option<Printer>,
}

impl Ledger for Heard {
    fn record(&self, sandbox: &str, event: &Event) -> Result<(), RunError> {
        self.own.record(sandbox, event)?;
        if let (Some(printer), Event::Egress(event)) = (&self.printer, event) {
            egress::tell(event, printer);
        }
        self.copy.as_ref().map_or(Ok(()), |copy| copy.record(sandbox, event))
    }
}

/// For questions that change nothing.
struct Nowhere;

impl Ledger for Nowhere {
    fn record(&self, _sandbox: &str, _event: &Event) -> Result<(), RunError> {
        Ok(())
    }
}
