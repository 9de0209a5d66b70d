//! What a run left behind on the host: mounts, cgroups, processes, interfaces, files.
//!
//! Take a snapshot before, ask for the leaks after. The machine may be busy with other things in
//! between, so a new process or cgroup counts only if it can be ours; mounts, interfaces and
//! watched files must be exactly what they were.

mod snapshot;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::leaks::snapshot::Snapshot;
use crate::processes::{self, Process, Processes};
use crate::trouble::Trouble;

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What to look at, and the state in which it was.
pub(crate) struct Watch {
    trees: Vec<PathBuf>,
    program: PathBuf,
    before: Snapshot,
}

/// What is different, one line each; empty if nothing is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaks(Vec<String>);

impl Watch {
    /// Remembers the state of the host. `program` is the one whose remains are looked for;
    /// `trees` are the directories in which not a file may come or go.
    pub(crate) fn start(program: &Path, trees: Vec<PathBuf>) -> Result<Self, Trouble> {
        let before = Snapshot::now(&trees)?;
        Ok(Self { trees, program: program.to_owned(), before })
    }

    /// What has come and stayed since the start, or has gone.
    ///
    /// The kernel ends some things after the last process has gone, so a difference counts only
    /// if it is still there after `patience`.
    pub(crate) fn leaks(&self, patience: Duration) -> Result<Leaks, Trouble> {
        let deadline = Instant::now() + patience;
        loop {
            let leaks = self.differences(&Snapshot::now(&self.trees)?);
            if leaks.is_empty() || Instant::now() >= deadline {
                return Ok(leaks);
            }
            thread::sleep(PAUSE);
        }
    }

    fn differences(&self, after: &Snapshot) -> Leaks {
        let before = &self.before;
        let mut found = Vec::new();
        compare("mount", &before.mounts, &after.mounts, &mut found);
        compare("interface", &before.interfaces, &after.interfaces, &mut found);
        compare("file", &before.files, &after.files, &mut found);

        let left: Vec<&Process> = self.processes_left(&after.processes);
        for process in &left {
            let pid = process.identity.pid;
            found.push(format!(
                "+ process {pid} `{}`, child of {}",
                process.name, process.parent
            ));
        }
        let pids: BTreeSet<u32> = left.iter().map(|it| it.identity.pid).collect();
        for dir in after.cgroups.difference(&before.cgroups) {
            let members = snapshot::members(dir);
            if members.is_empty() || !members.is_disjoint(&pids) {
                found.push(format!("+ cgroup {}", dir.display()));
            }
        }
        Leaks(found)
    }

    /// New processes that are our descendants, or orphans that run the program or live in
    /// namespaces that are not ours. A sandbox that somebody else started hangs below a process
    /// that is older than our watch.
    fn processes_left<'a>(&self, after: &'a Processes) -> Vec<&'a Process> {
        let own = std::process::id();
        let known = self.before.processes.identities();
        after
            .iter()
            .filter(|process| !known.contains(&process.identity) && process.identity.pid != own)
            .filter(|process| {
                let line = after.ancestors(process);
                if line.iter().any(|it| it.identity.pid == own) {
                    // One that has ended waits for us alone.
                    return !process.ended;
                }
                let orphan =
                    line.iter().all(|it| it.identity.pid == 1 || !known.contains(&it.identity));
                orphan && !process.ended && self.is_of_a_sandbox(process.identity.pid)
            })
            .collect()
    }

    fn is_of_a_sandbox(&self, pid: u32) -> bool {
        let own = std::process::id();
        let elsewhere = ["pid", "mnt", "user"].into_iter().any(|kind| {
            processes::namespace(pid, kind)
                .is_some_and(|it| Some(it) != processes::namespace(own, kind))
        });
        elsewhere || processes::executable(pid).is_some_and(|it| it == self.program)
    }
}

impl Leaks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Leaks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        for line in self.0.iter().take(SHOWN) {
            writeln!(out, "{line}")?;
        }
        let more = self.0.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(out, "and {more} more")?;
        }
        Ok(())
    }
}

/// Adds a line for each thing that is only in one of the two.
fn compare(
    kind: &str,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    found.extend(after.difference(before).map(|it| format!("+ {kind} {it}")));
    found.extend(before.difference(after).map(|it| format!("- {kind} {it}")));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Stdio;

    use super::*;
    use crate::programs;

    fn watch(dir: &Path) -> Watch {
        Watch::start(Path::new("/nowhere/program"), vec![dir.to_owned()]).unwrap()
    }

    /// What is different in `dir`. Other tests have sandboxes that come and go meanwhile.
    fn in_dir(watch: &Watch, dir: &Path) -> Vec<String> {
        let Leaks(mut found) = watch.leaks(Duration::ZERO).unwrap();
        found.retain(|it| it.contains(dir.to_str().unwrap()));
        found
    }

    #[test]
    fn a_file_that_came_and_one_that_went_are_both_seen() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old");
        fs::write(&old, "").unwrap();
        let watch = watch(dir.path());
        fs::remove_file(&old).unwrap();
        let new = dir.path().join("new");
        fs::write(&new, "").unwrap();
        let expected =
            [format!("+ file {}", new.display()), format!("- file {}", old.display())];
        assert_eq!(in_dir(&watch, dir.path()), expected);
    }

    #[test]
    fn a_record_of_events_may_grow_and_appear() {
        let dir = tempfile::tempdir().unwrap();
        let watch = watch(dir.path());
        fs::write(dir.path().join("events.jsonl"), "{}\n").unwrap();
        assert_eq!(in_dir(&watch, dir.path()), [""; 0]);
    }

    #[test]
    fn a_child_that_still_runs_is_a_leak_until_it_is_reaped() {
        let dir = tempfile::tempdir().unwrap();
        let watch = watch(dir.path());
        let mut child =
            programs::command("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let running = watch.leaks(Duration::ZERO).unwrap().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = format!("+ process {} ", child.id());
        assert!(running.contains(&found), "{running}");
        assert!(!watch.leaks(Duration::ZERO).unwrap().to_string().contains(&found));
    }
}
