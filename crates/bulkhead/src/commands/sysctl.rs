//! Kernel settings that make a host harder to break. They are looked at, never set.

use std::fmt;

use serde::Serialize;

/// One setting, as it is and as it should be.
#[derive(Debug, Serialize)]
pub(super) struct Advice {
    name: &'static str,
    is: i64,
    wanted: Wanted,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Exactly(i64),
    AtLeast(i64),
}

use Wanted::{AtLeast, Exactly};

#[rustfmt::skip]
const WANTED: [(&str, Wanted, &str); 14] = [
    ("dev.tty.legacy_tiocsti", Exactly(0), "programs cannot type into their terminal"),
    ("kernel.unprivileged_bpf_disabled", AtLeast(1), "only root loads programs into the kernel"),
    ("kernel.perf_event_paranoid", AtLeast(3), "only root measures the kernel"),
    ("kernel.kptr_restrict", AtLeast(2), "addresses of the kernel stay hidden"),
    ("kernel.dmesg_restrict", Exactly(1), "messages of the kernel stay hidden"),
    ("kernel.yama.ptrace_scope", AtLeast(1), "programs cannot read the memory of others"),
    ("fs.protected_symlinks", AtLeast(1), "links in shared directories cannot mislead"),
    ("fs.protected_hardlinks", AtLeast(1), "links to other people's files cannot be made"),
    ("fs.protected_fifos", AtLeast(1), "pipes in shared directories cannot mislead"),
    ("fs.protected_regular", AtLeast(1), "files in shared directories cannot mislead"),
    ("kernel.io_uring_disabled", Exactly(2), "a large part of the kernel is out of reach, if nothing here uses it"),
    ("vm.unprivileged_userfaultfd", Exactly(0), "races in the kernel are harder to win"),
    ("kernel.keys.maxkeys", AtLeast(20_000), "many sandboxes do not run out of keys"),
    ("fs.inotify.max_user_instances", AtLeast(1024), "many sandboxes do not run out of watches"),
];

/// The settings that this kernel has.
pub(super) fn advice() -> Vec<Advice> {
    let look = |(name, wanted, why): (&'static str, Wanted, &'static str)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let is = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        Some(Advice { name, is, wanted, why })
    };
    WANTED.into_iter().filter_map(look).collect()
}

impl Advice {
    /// Whether the setting is as it should be.
    pub(super) fn is_followed(&self) -> bool {
        match self.wanted {
            Exactly(wanted) => self.is == wanted,
            AtLeast(least) => least <= self.is,
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Exactly(wanted) | AtLeast(wanted)) = self.wanted;
        let Self { name, is, wanted: _, why } = self;
        let command = format!("sudo sysctl {name}={wanted}");
        write!(out, "{command:50} so that {why} (is {is})")
    }
}
