//! A virtual machine with what most people's machines have: the unified cgroup tree and a systemd
//! user session.
//!
//! Whether limits bind for an ordinary user depends on both, and a build host often has neither. The
//! guest is Debian as installed, made from the host's own package sources; tests go in as static
//! binaries.
//!
//! Invariant: a run changes nothing on the host outside `target/`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use tempfile::TempDir;

use self::image::{Reuse, ready};
use self::job::{Job, Mark, Place, Report, Scope, Step, User};
use self::machine::{Engine, Machine, Terms};
use crate::print;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

mod binaries;
mod image;
mod initrd;
mod job;
mod machine;
mod recipe;
mod test;
mod trials;

/// What the guest's binaries are built for.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// What to do with the machine.
#[derive(Subcommand)]
pub(crate) enum Vm {
    /// Make the guest, unless it is there and nothing that it is made of has changed.
    Build {
        /// Make it even so, for newer packages.
        #[arg(long)]
        fresh: bool,
    },
    /// Boot, run one command in a login session, and exit with its code.
    ///
    /// The repository is there at its own path, read-only. The release binary `bulkhead` of the
    /// musl target is installed, if it has been built.
    Run(RunArgs),
    /// Boot, run the tests as root and as an ordinary user, and say how many passed.
    Test(TestArgs),
}

/// What both ways to boot have in common.
#[derive(Args)]
pub(crate) struct BootArgs {
    /// Seconds until the machine is ended, boot included; 600 for a command, 1800 for the tests.
    #[arg(long)]
    timeout: Option<u64>,
    /// Use the host's processor; without this, instructions are translated.
    #[arg(long)]
    kvm: bool,
}

/// What `vm run` takes.
#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    boot: BootArgs,
    /// Whose session it is.
    #[arg(long, value_enum, default_value_t = User::Tester)]
    user: User,
    /// Where to start, as a path in the guest; the user's home unless given.
    #[arg(long)]
    workdir: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

/// What `vm test` takes.
#[derive(Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    boot: BootArgs,
    /// Try only what has one of these in its name.
    only: Vec<String>,
}

/// Does what the command line says.
pub(crate) fn run(verb: Vm) -> Result<ExitCode, Trouble> {
    all_installed()?;
    let ground = Ground::new()?;
    match verb {
        Vm::Build { fresh: false } => build(&ground, Reuse::IfUnchanged),
        Vm::Build { fresh: true } => build(&ground, Reuse::Never),
        Vm::Run(args) => run_one(&ground, args),
        Vm::Test(args) => {
            test::test(&ground, &args.only, args.boot.terms(Duration::from_mins(30)))
        }
    }
}

/// What the machine is made with and run by.
const TOOLS: &[&str] = &[
    "apt-get",
    "dpkg-deb",
    "fakeroot",
    "mke2fs",
    "mmdebstrap",
    "qemu-system-x86_64",
    "setpriv",
];

fn all_installed() -> Result<(), Trouble> {
    match TOOLS.iter().find(|tool| programs::find(tool).is_none()) {
        None => Ok(()),
        Some(missing) => Err(Trouble::new(format!(
            "`{missing}` is not installed; scripts/install-vm.sh installs what the machine needs"
        ))),
    }
}

/// The file that an error is about.
fn at(path: &Path) -> String {
    format!("`{}`", path.display())
}

impl BootArgs {
    fn terms(&self, usual: Duration) -> Terms {
        Terms {
            engine: if self.kvm { Engine::Kvm } else { Engine::Tcg },
            limit: self.timeout.map_or(usual, Duration::from_secs),
        }
    }
}

fn build(ground: &Ground, reuse: Reuse) -> Result<ExitCode, Trouble> {
    let image = ready(&ground.home, reuse)?;
    print::result(&image.disk.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn run_one(ground: &Ground, args: RunArgs) -> Result<ExitCode, Trouble> {
    let terms = args.boot.terms(Duration::from_mins(10));
    let image = ready(&ground.home, Reuse::IfUnchanged)?;
    let step = Step {
        user: args.user,
        scope: Scope::Session,
        place: args.workdir.map_or(Place::Home, Place::Directory),
        environment: Vec::new(),
        command: args.command,
        limit: terms.limit,
    };
    let directory = ground.run_directory()?;
    let mut machine = Machine::boot(&image, ground.job(vec![step]), directory.path(), terms)?;
    loop {
        match machine.hear()? {
            Report::Begun { .. } => {}
            Report::Output(bytes) => print::passed_on(&bytes)?,
            Report::Ended { code, .. } => return Ok(ExitCode::from(code)),
        }
    }
}

/// Where on the host everything is.
struct Ground {
    /// The repository.
    root: PathBuf,
    /// What the machine keeps.
    home: PathBuf,
}

impl Ground {
    fn new() -> Result<Self, Trouble> {
        let root = programs::repository().to_owned();
        let home = root.join("target/vm");
        fs::create_dir_all(&home).or_trouble(|| at(&home))?;
        Ok(Self { root, home })
    }

    fn job(&self, steps: Vec<Step>) -> Job {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Job {
            share: self.root.clone(),
            steps,
            mark: Mark::new(now.unwrap_or_default().as_nanos()),
        }
    }

    /// The directory of one run, for its scripts and its console log, open to every user of the
    /// guest. Goes away with the run.
    fn run_directory(&self) -> Result<TempDir, Trouble> {
        self.sweep()?;
        tempfile::Builder::new()
            .prefix(&format!("run-{}-", process::id()))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(&self.home)
            .or_trouble(|| at(&self.home))
    }

    /// Removes the directories of runs that were killed before they could do so themselves.
    fn sweep(&self) -> Result<(), Trouble> {
        let entries = fs::read_dir(&self.home).or_trouble(|| at(&self.home))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix("run-").and_then(|it| it.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                fs::remove_dir_all(entry.path()).or_trouble(|| at(&entry.path()))?;
            }
        }
        Ok(())
    }
}
