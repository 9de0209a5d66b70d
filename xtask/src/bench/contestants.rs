//! Who takes part in `bench start`, and by which command line.
//!
//! A contestant that cannot run keeps its row, with the reason in it. One that refuses the
//! plain command line on some hosts has further attempts, each with a note of what it took.

mod oci;

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Serialize;

use crate::account::Account;
use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::bench::dockerd::Dockerd;
use crate::bench::spawner::{Invocation, Stage};
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::Trouble;

/// How many runs a contestant can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Tens of milliseconds at most: all the runs.
    Fast,
    /// Hundreds: fewer runs, as the table says, and a rest after each for what still ends.
    Slow,
}

/// One way of running a contestant.
pub(crate) struct Attempt {
    pub(crate) stage: Stage,
    pub(crate) invocation: Invocation,
    /// What is different from the plain way; empty if nothing is.
    pub(crate) note: String,
}

/// A row of the table.
pub(crate) struct Contestant {
    pub(crate) pace: Pace,
    /// In the order in which they are tried, or why there are none.
    pub(crate) attempts: Result<Vec<Attempt>, String>,
}

/// Who can take part, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    /// Fork and exec of `/bin/true`: what nobody can be faster than.
    Plain,
    Unshare,
    Bulkhead,
    BulkheadUser,
    Bwrap,
    BwrapUser,
    Crun,
    Runc,
    Runsc,
    Podman,
    Srt,
    Docker,
}

impl Name {
    fn pace(self) -> Pace {
        match self {
            Self::Plain
            | Self::Unshare
            | Self::Bulkhead
            | Self::BulkheadUser
            | Self::Bwrap
            | Self::BwrapUser
            | Self::Crun
            | Self::Runc => Pace::Fast,
            Self::Runsc | Self::Podman | Self::Srt | Self::Docker => Pace::Slow,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        out.pad(value.as_ref().map_or("", PossibleValue::get_name))
    }
}

/// What the contestants stand on; dropped from the top, so the daemon goes before its files.
pub(crate) struct Field {
    docker: Result<Dockerd, String>,
    bundle: Result<Bundle, String>,
    cgroup: CgroupParent,
    bulkhead: Result<PathBuf, String>,
    account: Result<Account, String>,
    home: PathBuf,
    dir: PathBuf,
    scratch: Scratch,
}

impl Field {
    /// Prepares what the contestants in `chosen` need.
    pub(crate) fn prepare(
        chosen: &[Name],
        bulkhead: Result<PathBuf, Trouble>,
        user: &str,
    ) -> Result<Self, Trouble> {
        let scratch = Scratch::new()?;
        let cgroup = CgroupParent::new();
        let bundle = Bundle::make(&scratch, &cgroup.path()).map_err(|it| it.sentence());
        let docker = match &bundle {
            Ok(bundle) if chosen.contains(&Name::Docker) => {
                Dockerd::ready(&scratch, bundle, &cgroup).map_err(|it| it.sentence())
            }
            Ok(_) => Err("not asked for".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        let account = Account::named(user).map_err(|it| it.sentence());
        scratch.dir_of("user", account.as_ref().ok())?;
        scratch.dir_of("user/home", account.as_ref().ok())?;
        scratch.dir_of("user/work", account.as_ref().ok())?;
        Ok(Self {
            docker,
            bundle,
            cgroup,
            bulkhead: bulkhead.and_then(|it| scratch.laid(&it)).map_err(|it| it.sentence()),
            account,
            home: scratch.dir("home")?,
            dir: scratch.dir("work")?,
            scratch,
        })
    }

    /// The contestant of that name.
    pub(crate) fn contestant(&self, name: Name) -> Contestant {
        let attempts = match name {
            Name::Plain => self.plain(),
            Name::Unshare => self.unshare(),
            Name::Bulkhead => self.bulkhead(),
            Name::BulkheadUser => self.bulkhead_as_user(),
            Name::Bwrap => self.bwrap(),
            Name::BwrapUser => self.bwrap_as_user(),
            Name::Crun => self.crun(),
            Name::Runc => self.runc(),
            Name::Runsc => self.runsc(),
            Name::Podman => self.podman(),
            Name::Srt => self.srt(),
            Name::Docker => self.docker(),
        };
        Contestant { pace: name.pace(), attempts }
    }

    fn plain(&self) -> Result<Vec<Attempt>, String> {
        Ok(vec![on_host(self.call("true", &[])?)])
    }

    fn unshare(&self) -> Result<Vec<Attempt>, String> {
        let flags = "-r -m -p -n -i -u -C -f --mount-proc /bin/true";
        Ok(vec![on_host(self.call("unshare", &words(flags))?)])
    }

    fn bwrap(&self) -> Result<Vec<Attempt>, String> {
        Ok(vec![on_host(self.call("bwrap", &words(BWRAP))?)])
    }

    fn bwrap_as_user(&self) -> Result<Vec<Attempt>, String> {
        Ok(vec![self.as_user(self.call("bwrap", &words(BWRAP))?)?])
    }

    fn bulkhead(&self) -> Result<Vec<Attempt>, String> {
        let program = self.bulkhead.clone()?;
        let args = words("run --memory 512m --cpus 1 --pids 64 -- /bin/true");
        Ok(vec![on_host(self.invocation(program, args))])
    }

    /// The same walls. Where no cgroup is delegated to the user, limits that were asked for are
    /// refused, so the second attempt asks for none.
    fn bulkhead_as_user(&self) -> Result<Vec<Attempt>, String> {
        let program = self.bulkhead.clone()?;
        let limited = words("run --memory 512m --cpus 1 --pids 64 -- /bin/true");
        let unasked = words("run -- /bin/true");
        let mut second = self.as_user(self.invocation(program.clone(), unasked))?;
        "default limits only: no cgroup is delegated to the user".clone_into(&mut second.note);
        Ok(vec![self.as_user(self.invocation(program, limited))?, second])
    }

    fn srt(&self) -> Result<Vec<Attempt>, String> {
        Ok(vec![on_host(self.call("srt", &words("/bin/true"))?)])
    }

    fn as_user(&self, mut invocation: Invocation) -> Result<Attempt, String> {
        let account = self.account.clone()?;
        let user = self.scratch.path().join("user");
        invocation.env = environment(&user.join("home"));
        invocation.dir = user.join("work");
        Ok(Attempt { stage: Stage::As(account), invocation, note: String::new() })
    }

    /// A program of this machine with arguments.
    fn call(&self, program: &str, args: &[String]) -> Result<Invocation, String> {
        let path = programs::find(program).ok_or_else(|| "not installed".to_owned())?;
        Ok(self.invocation(path, args.to_vec()))
    }

    fn invocation(&self, program: PathBuf, args: Vec<String>) -> Invocation {
        Invocation { program, args, env: environment(&self.home), dir: self.dir.clone() }
    }
}

fn on_host(invocation: Invocation) -> Attempt {
    Attempt { stage: Stage::Host, invocation, note: String::new() }
}

const BWRAP: &str = "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib \
    /lib --symlink usr/lib64 /lib64 --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp \
    -- /bin/true";

/// Little, and the same for everybody; what a contestant writes stays in the scratch directory.
fn environment(home: &Path) -> Vec<(String, String)> {
    let home = home.display().to_string();
    vec![
        ("PATH".to_owned(), programs::system_path()),
        ("BULKHEAD_HOME".to_owned(), format!("{home}/bulkhead")),
        ("HOME".to_owned(), home),
    ]
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}
