//! What a sandbox leaves on the host, as the host sees it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The variable by which programs of a run are found.
pub(crate) const MARK: &str = "BULKHEAD_TEST_RUN";

/// Processes as the host knows them: by number and start time, because a number is used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processes(BTreeMap<u32, String>);

impl Processes {
    /// All processes of the namespace in which programs of the run `id` are, PID 1 included.
    pub(crate) fn of(id: &str) -> Self {
        let mark = format!("{MARK}={id}");
        let marked = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|it| *it == 0).any(|it| it == mark.as_bytes())
        };
        let spaces: Vec<PathBuf> = all().filter(marked).filter_map(space).collect();
        Self::among(|pid| space(pid).is_some_and(|it| spaces.contains(&it)))
    }

    pub(crate) fn among(wanted: impl Fn(u32) -> bool) -> Self {
        let found = all().filter(|pid| wanted(*pid));
        Self(found.filter_map(|pid| Some((pid, started(pid)?))).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are still there.
    pub(crate) fn left(&self) -> Self {
        let same = |(pid, start): &(&u32, &String)| started(**pid).as_ref() == Some(*start);
        Self(self.0.iter().filter(same).map(|(pid, start)| (*pid, start.clone())).collect())
    }
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
}

/// The process namespace of `pid`, if we may know.
fn space(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// When `pid` was started, in ticks since the boot; nothing if it is dead and not ours to bury.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, but no further `)`.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ours = fields.get(1)?.parse() == Ok(std::process::id());
    let dead = *fields.first()? == "Z" && !ours;
    fields.get(19).filter(|_| !dead).map(|it| (*it).to_owned())
}

/// Every directory of the cgroup filesystem that is called after the run `id`.
pub(crate) fn cgroups(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(dir) = rest.pop() {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for entry in entries.flatten() {
            if !entry.file_type().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            let name = entry.file_name();
            if name == id || name.to_string_lossy() == format!("bulkhead-{id}") {
                found.push(entry.path());
            }
            rest.push(entry.path());
        }
    }
    found
}

/// Everything below `dir`, with its permissions and its content.
pub(crate) fn listing(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![dir.to_owned()];
    while let Some(dir) = rest.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content =
                if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                rest.push(path.clone());
            }
            found.insert(path, (metadata.mode(), content));
        }
    }
    found
}

/// Waits until `is_so`, and fails if it takes longer than `limit`.
pub(crate) async fn eventually(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
