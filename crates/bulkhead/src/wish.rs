//! From flags and configuration to a `Spec` and an `Exec`.
//!
//! Here ends what the caller wrote and begins what the policy decides about. Paths are looked up
//! on the host, once; from here on a link cannot lead elsewhere.

mod env;
mod env_file;
mod flags;
mod guard;
mod shares;
mod workspace;

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bulkhead_policy::Policy;
use bulkhead_spec::{
    Egress, Entry, Exec, GuestPath, HostPath, ImageRef, Limits, Mount, Network, Root, Spec,
    Stdin, Syscalls, Terminal, Walls, Workspace, escape_bytes,
};

pub(crate) use self::env::named as variables;
use crate::{
    agents::Agent,
    args::{net::NetArgs, run::Ask},
    codes::Code,
    commands::image::ProjectImage,
    config::{
        Choice, Config, Deadline, Environment, Layer, Paths, ProjectFrom, Sources, shown,
    },
    engine::Tell,
    failure::Failure,
    gitconfig,
    printer::Printer,
    toolchains::{self, Toolchains},
};

/// What flags about the way out say, for those who only ask about rules.
pub(crate) fn net_layer(net: &NetArgs) -> Result<Layer, Failure> {
    let mut layer = Layer::default();
    flags::way_out(&mut layer, net)?;
    Ok(layer)
}

/// What is asked of the engine.
pub(crate) struct Wish {
    /// The room.
    pub(crate) spec: Spec,
    /// The program.
    pub(crate) exec: Exec,
    /// The rules.
    pub(crate) policy: Policy,
    /// Who may build the room.
    pub(crate) choice: Choice,
    /// Where Bulkhead keeps its files.
    pub(crate) paths: Paths,
    /// The caller's variables.
    pub(crate) environment: Environment,
    /// Where each value came from.
    pub(crate) layer: Layer,
    /// The agent that was asked for by its name.
    pub(crate) agent: Option<Agent>,
    /// Who is told what takes long.
    pub(crate) tell: Tell,
    /// What the caller should know before the program runs.
    pub(crate) warnings: Vec<String>,
    /// What only a curious caller wants to know.
    pub(crate) details: Vec<String>,
}

/// The caller's side, as far as it decides what is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caller {
    /// What the program reads.
    pub(crate) stdin: Stdin,
    /// The terminal that it is to run on.
    pub(crate) terminal: Option<Terminal>,
}

impl Wish {
    /// Understands `ask`.
    pub(crate) fn of(
        ask: &Ask,
        caller: Caller,
        environment: Environment,
    ) -> Result<Self, Failure> {
        Self::within(ask, caller, environment, None)
    }

    /// The same, in the image that the project asks for.
    pub(crate) fn within(
        ask: &Ask,
        caller: Caller,
        environment: Environment,
        found: Option<ProjectImage>,
    ) -> Result<Self, Failure> {
        let workspace = workspace::find(&ask.workspace)?;
        let project = match (&ask.from.config, &workspace) {
            (Some(path), _) => ProjectFrom::Named(path.clone()),
            (None, Some(workspace)) => {
                ProjectFrom::Workspace(workspace.dir.as_path().to_owned())
            }
            (None, None) => ProjectFrom::Absent,
        };
        let sources = Sources::of(project, &environment);
        let mut config = Config::load(environment, &sources)?;
        config.check_trust()?;
        let agent = Agent::of(ask, &config.paths)?;
        let mut below = std::mem::take(&mut config.layer);
        if let Some(agent) = &agent {
            below = below.over(agent.layer(&config.environment)?);
        }
        config.layer = flags::layer(ask)?.over(below);
        let asked = Asked { ask, caller, workspace, config, found, agent };
        asked.understood()
    }
}

/// Flags and configuration together.
struct Asked<'a> {
    ask: &'a Ask,
    caller: Caller,
    workspace: Option<Workspace>,
    config: Config,
    /// The project's image, where nobody named another root.
    found: Option<ProjectImage>,
    /// The agent that was asked for by its name.
    agent: Option<Agent>,
}

fn walls(choice: Choice) -> Walls {
    match choice {
        Choice::Auto | Choice::Native | Choice::Docker | Choice::Podman => Walls::Up,
        Choice::None => Walls::Waived,
    }
}

impl Asked<'_> {
    fn understood(mut self) -> Result<Wish, Failure> {
        let choice = self.config.layer.backend.unwrap_or_default();
        let walls = walls(choice);
        if walls == Walls::Waived && !self.ask.console.tty {
            // Without walls there is nobody to make a terminal; plain streams do.
            self.caller.terminal = None;
        }
        let root = self.root()?;
        let mut mounts = self.shares()?;
        self.spare();
        let tmpfs = self.empty(walls, &mounts)?;
        let home = self.home(&root, &mounts);
        let toolchains = self.toolchains(walls, &root, &mounts);
        let env = env::build(&self, walls, (&root, home.as_ref()), &toolchains)?;
        let details = toolchains.hidden.iter().map(|dir| {
            format!("`{}` is on the PATH and not shared; --mount shares it", shown(dir))
        });
        let details = details.collect();
        let state = self.state(walls, home.as_ref())?;
        let own = toolchains.mounts.into_iter().chain(state);
        let own: Vec<Mount> = own.filter(|it| self.may_share(it)).collect();
        mounts.splice(0..0, own);
        let exec = self.exec(&root)?;
        let policy = self.config.policy(self.defaults());
        let network = self.config.layer.network.unwrap_or_default();
        let spec = Spec {
            root,
            workspace: self.workspace.clone(),
            mounts,
            tmpfs,
            home,
            home_files: self.home_files(),
            limits: self.limits(),
            network,
            egress: self.egress(network),
            env: env.all,
            fallback_env: env.fallback,
            syscalls: self.syscalls(),
            walls,
            require: self.config.layer.required(),
        };
        let Config { environment, paths, layer, mut warnings, .. } = self.config;
        warnings.extend(env.warnings);
        warnings.extend(openness(spec.network, walls));
        warnings.extend(self.agent.iter().flat_map(|it| it.warnings(&environment, network)));
        let tell = Printer::new(&environment).talking((&self.ask.talk).into()).teller();
        Ok(Wish {
            spec,
            exec,
            policy,
            choice,
            paths,
            environment,
            layer,
            agent: self.agent,
            tell,
            warnings,
            details,
        })
    }

    /// What the agent keeps from run to run. Without walls it keeps that where it always does.
    fn state(&self, walls: Walls, home: Option<&GuestPath>) -> Result<Vec<Mount>, Failure> {
        let (Walls::Up, Some(agent)) = (walls, &self.agent) else { return Ok(Vec::new()) };
        let home = home.map_or(Path::new(env::HOME), GuestPath::as_path);
        let project = self.workspace.as_ref().map(|it| it.dir.as_path());
        agent.mounts(&self.config.paths, &self.config.environment, (home, project))
    }

    /// What of the workspace needs no protection.
    fn spare(&mut self) {
        if let Some(workspace) = &mut self.workspace {
            workspace.env_files = self.config.layer.env_files.unwrap_or_default();
            workspace.unprotected.clone_from(&self.ask.workspace.unprotect);
        }
    }

    /// What is asked of the gateway, where there is one.
    fn egress(&self, network: Network) -> Egress {
        match network {
            Network::Proxy | Network::Observe => self.config.layer.way_out.asked(),
            Network::None | Network::Open => Egress::default(),
        }
    }

    fn root(&self) -> Result<Root, Failure> {
        if let Some(found) = &self.found {
            return Ok(Root::Image(found.image.clone()));
        }
        let Some(dir) = &self.ask.files.rootfs else { return self.image() };
        let failed = |why: String| {
            let what = format!("cannot use `{}` as a root filesystem", shown(dir));
            Failure::new(Code::Share, what).because(why)
        };
        let real = dir.canonicalize().map_err(|error| failed(error.to_string()))?;
        if !real.is_dir() {
            return Err(failed("it is not a directory".to_owned()));
        }
        HostPath::try_from(real).map(Root::Directory).map_err(|error| failed(error.to_string()))
    }

    fn image(&self) -> Result<Root, Failure> {
        let home = self.config.environment.home();
        let image = self.config.layer.image.as_ref();
        let source = image.map(|it| it.find(home.as_deref())).transpose()?.flatten();
        let pull = self.config.layer.pull.unwrap_or_default();
        Ok(source.map_or(Root::Host, |source| Root::Image(ImageRef { source, pull })))
    }

    fn shares(&self) -> Result<Vec<Mount>, Failure> {
        let place = shares::Place {
            home: self.config.environment.home(),
            workspace: self.workspace.as_ref().map(|it| it.dir.as_path().to_owned()),
        };
        self.config.layer.mounts.iter().map(|it| place.resolve(&it.value)).collect()
    }

    /// The caller's home directory is the sandbox's too, private and empty, so that toolchains
    /// find what they look for at the same place. `None` where that place is taken.
    fn home(&self, root: &Root, mounts: &[Mount]) -> Option<GuestPath> {
        const TAKEN: [&str; 9] =
            ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev"];
        let home = self.config.environment.home().filter(|_| *root == Root::Host)?;
        let shared = mounts.iter().map(|it| it.to.as_path());
        let workspace = self.workspace.iter().map(|it| it.dir.as_path());
        let mut taken = TAKEN.iter().map(Path::new).chain(shared).chain(workspace);
        if taken.any(|dir| home.starts_with(dir)) {
            return None;
        }
        GuestPath::try_from(home).ok()
    }

    fn home_files(&self) -> BTreeMap<String, String> {
        let git = gitconfig::for_sandbox(&self.config.environment);
        git.map(|text| (".gitconfig".to_owned(), text)).into_iter().collect()
    }

    fn toolchains(&self, walls: Walls, root: &Root, mounts: &[Mount]) -> Toolchains {
        match (walls, root) {
            (Walls::Up, Root::Host) => {
                let shared = mounts.iter().map(|it| it.to.as_path().to_owned());
                let workspace = self.workspace.iter().map(|it| it.dir.as_path().to_owned());
                let seen: Vec<PathBuf> = shared.chain(workspace).collect();
                toolchains::discover(&self.config.environment, &seen)
            }
            (Walls::Up | Walls::Waived, Root::Directory(_) | Root::Image(_))
            | (Walls::Waived, Root::Host) => Toolchains::default(),
        }
    }

    /// Whether the owner of the machine lets this be shared: a toolchain that may not be is left
    /// out, since nobody asked for it by name.
    fn may_share(&self, mount: &Mount) -> bool {
        let allowed = self.config.layer.ceiling.mounts.as_ref();
        allowed.is_none_or(|roots| roots.iter().any(|root| root.holds(&mount.from)))
    }

    fn exec(&self, root: &Root) -> Result<Exec, Failure> {
        let dir = match &self.ask.files.workdir {
            Some(dir) => Some(self.workdir(dir)?),
            None => self.start(),
        };
        let program = self.ask.files.entrypoint.iter().filter(|it| !it.is_empty());
        let entry = match (root, &self.ask.files.entrypoint, &self.found) {
            (Root::Image(_), None, None) => Entry::Image,
            // Nobody asked for the project's image by name, so what was typed is what runs.
            (Root::Image(_) | Root::Host | Root::Directory(_), _, _) => Entry::Exact,
        };
        Ok(Exec {
            argv: match &self.agent {
                Some(agent) => agent.argv(&self.ask.program),
                None => program.chain(&self.ask.program).cloned().collect(),
            },
            entry,
            dir,
            timeout: None,
            grace: self.config.layer.kill_after.unwrap_or(Layer::KILL_AFTER).0,
            stdin: self.caller.stdin,
            terminal: self.caller.terminal,
            ..Exec::default()
        })
    }

    /// `--workdir`; a relative one is below the workspace.
    fn workdir(&self, dir: &Path) -> Result<GuestPath, Failure> {
        let base = self.workspace.as_ref().map_or(Path::new("/"), |it| it.dir.as_path());
        GuestPath::try_from(base.join(dir)).map_err(|error| {
            let what =
                format!("cannot start in `{}`", escape_bytes(dir.as_os_str().as_bytes()));
            Failure::new(Code::WorkDir, what).because(error)
        })
    }

    /// Where the caller is, if the sandbox sees it as part of the workspace.
    fn start(&self) -> Option<GuestPath> {
        let workspace = self.workspace.as_ref()?;
        let here = std::env::current_dir().ok()?;
        let inside = here.starts_with(workspace.dir.as_path());
        let said = self.found.as_ref().and_then(|it| it.start.as_ref());
        let start = match said {
            // Whoever is further in has chosen.
            Some(below) if here == workspace.dir.as_path() => here.join(below),
            Some(_) | None => here,
        };
        inside.then(|| GuestPath::try_from(start).ok()).flatten()
    }

    fn limits(&self) -> Limits {
        let timeout = match self.config.layer.timeout {
            Some(Deadline::After(span)) => Some(span),
            Some(Deadline::Never) | None => None,
        };
        Limits { timeout, ..self.config.layer.limits }
    }

    /// A human at a terminal decides how long it takes; nobody else does.
    fn defaults(&self) -> Limits {
        let watched = self.caller.terminal.is_some();
        let endless = self.config.layer.timeout == Some(Deadline::Never);
        let timeout = self.config.defaults.timeout.filter(|_| !watched && !endless);
        Limits { timeout, ..self.config.defaults }
    }

    fn syscalls(&self) -> Syscalls {
        if self.ask.walls.debug_syscalls { Syscalls::Debug } else { Syscalls::Standard }
    }
}

/// What somebody who opens the network should know.
fn openness(network: Network, walls: Walls) -> Option<String> {
    let text = match (network, walls) {
        (Network::Open, Walls::Up) => {
            "the network is open: the program can talk to anything that this host can"
        }
        (Network::Observe, _) => {
            "observing: the program can reach every public host, and what it reaches is written down"
        }
        (Network::Open | Network::None | Network::Proxy, _) => return None,
    };
    Some(text.to_owned())
}
