//! The processes of this machine as `/proc` shows them at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::trouble::{OrTrouble, Trouble};

/// A process, and not another one that got its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// When it started, in clock ticks after boot.
    started: u64,
}

/// What we know of a process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) identity: Identity,
    pub(crate) parent: u32,
    /// Ended, and kept only until its parent asks how.
    pub(crate) ended: bool,
    pub(crate) name: String,
}

/// Every process, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(BTreeMap<u32, Process>);

impl Processes {
    /// Reads them all. One that ends while we read is not there.
    pub(crate) fn now() -> Result<Self, Trouble> {
        let entries =
            fs::read_dir("/proc").or_trouble(|| "could not read `/proc`".to_owned())?;
        let all = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter_map(|pid| Some((pid, process(pid)?)))
            .collect();
        Ok(Self(all))
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Process> {
        self.0.get(&pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.0.values()
    }

    pub(crate) fn identities(&self) -> BTreeSet<Identity> {
        self.iter().map(|it| it.identity).collect()
    }

    /// Those that can still do something. An ended process that only waits for the machine's
    /// first process to take note of it cannot, and when that happens is not ours to promise.
    pub(crate) fn alive(&self) -> BTreeSet<Identity> {
        let left_to_init = |it: &Process| it.ended && it.parent == 1;
        self.iter().filter(|it| !left_to_init(it)).map(|it| it.identity).collect()
    }

    /// The process itself and everything that it started and that is still its descendant.
    pub(crate) fn tree_of(&self, root: u32) -> Vec<&Process> {
        let mut tree: Vec<&Process> = self.get(root).into_iter().collect();
        let mut at = 0;
        while let Some(parent) = tree.get(at).map(|it| it.identity.pid) {
            tree.extend(self.iter().filter(|it| it.parent == parent));
            at += 1;
        }
        tree
    }

    /// Its parents, nearest first, up to the first process of the machine.
    pub(crate) fn ancestors(&self, of: &Process) -> Vec<&Process> {
        let mut line = Vec::new();
        let mut next = self.get(of.parent);
        while let Some(process) = next {
            line.push(process);
            next = self.get(process.parent);
        }
        line
    }
}

/// The memory that is this process's own share, in KiB; `None` if it has ended.
pub(crate) fn proportional_kib(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The program that a process runs; `None` for kernel threads and ended processes.
pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The namespace of a kind (`pid`, `mnt`, …) that a process lives in.
pub(crate) fn namespace(pid: u32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, signal: Signal) -> Result<(), Trouble> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| Trouble::new(format!("{pid} is not a process")))?;
    kill_process(number, signal).or_trouble(|| format!("could not signal process {pid}"))
}

fn process(pid: u32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `/proc/PID/stat`; the name in its second field may itself contain brackets and blanks.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The 22nd field of the line; two stand before the state, which is read like the parent.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { identity: Identity { pid, started }, parent, ended: state == "Z", name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 20";
        let process = parse(42, stat).unwrap();
        assert_eq!(process.identity, Identity { pid: 42, started: 987_654 });
        assert_eq!(
            (process.parent, process.ended, process.name.as_str()),
            (7, true, "a) b (c")
        );
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let all = Processes::now().unwrap();
        let own = std::process::id();
        let parent = all.get(own).unwrap().parent;
        assert!(all.tree_of(parent).iter().any(|it| it.identity.pid == own));
        assert_eq!(all.ancestors(all.get(own).unwrap())[0].identity.pid, parent);
        assert!(proportional_kib(own).unwrap() > 0);
    }
}
