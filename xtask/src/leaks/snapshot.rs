//! The state of the host at one moment, as far as a sandbox could change it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::processes::Processes;
use crate::trouble::{OrTrouble, Trouble};

const CGROUPS: &str = "/sys/fs/cgroup";

/// A record of events is meant to stay, so files of this kind are not looked at.
const RECORD: &str = "jsonl";

/// What is kept for the next sandboxes.
const SPARE: &str = "stand-ins/spare";

pub(super) struct Snapshot {
    pub(super) mounts: BTreeSet<String>,
    pub(super) interfaces: BTreeSet<String>,
    pub(super) files: BTreeSet<String>,
    pub(super) cgroups: BTreeSet<PathBuf>,
    pub(super) processes: Processes,
}

impl Snapshot {
    pub(super) fn now(trees: &[PathBuf]) -> Result<Self, Trouble> {
        let mut files = BTreeSet::new();
        for tree in trees {
            collect(tree, &mut |path, kind| {
                let kept = path.parent().is_some_and(|it| it.ends_with(SPARE));
                let record = path.extension().is_some_and(|it| it == RECORD);
                if !kept && (!record || kind == Kind::Directory) {
                    files.insert(path.display().to_string());
                }
            })?;
        }
        let mut cgroups = BTreeSet::new();
        collect(Path::new(CGROUPS), &mut |path, kind| {
            if kind == Kind::Directory {
                cgroups.insert(path.to_owned());
            }
        })?;
        Ok(Self {
            mounts: mounts()?,
            interfaces: interfaces()?,
            files,
            cgroups,
            processes: Processes::now()?,
        })
    }
}

/// The processes in a cgroup and in those below it.
pub(super) fn members(cgroup: &Path) -> BTreeSet<u32> {
    let mut members: BTreeSet<u32> = fs::read_to_string(cgroup.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    let below = fs::read_dir(cgroup).into_iter().flatten().filter_map(Result::ok);
    for entry in below.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())) {
        members.extend(self::members(&entry.path()));
    }
    members
}

fn mounts() -> Result<BTreeSet<String>, Trouble> {
    let path = "/proc/self/mountinfo";
    let text = fs::read_to_string(path).or_trouble(|| format!("could not read `{path}`"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn interfaces() -> Result<BTreeSet<String>, Trouble> {
    let mut interfaces = BTreeSet::new();
    collect_one(Path::new("/sys/class/net"), &mut |path, _| {
        interfaces.insert(path.display().to_string());
    })?;
    Ok(interfaces)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Other,
}

/// Visits everything below a directory; a directory that is not there has nothing below it.
fn collect(dir: &Path, visit: &mut impl FnMut(&Path, Kind)) -> Result<(), Trouble> {
    let mut below = Vec::new();
    collect_one(dir, &mut |path, kind| {
        visit(path, kind);
        if kind == Kind::Directory {
            below.push(path.to_owned());
        }
    })?;
    for dir in below {
        collect(&dir, visit)?;
    }
    Ok(())
}

fn collect_one(dir: &Path, visit: &mut impl FnMut(&Path, Kind)) -> Result<(), Trouble> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // Something else on this machine may remove it between two looks.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error).or_trouble(|| format!("could not read `{}`", dir.display()));
        }
    };
    for entry in entries.filter_map(Result::ok) {
        let directory = entry.file_type().is_ok_and(|it| it.is_dir());
        visit(&entry.path(), if directory { Kind::Directory } else { Kind::Other });
    }
    Ok(())
}
