//! The disks of rooms that have changed much: kept, and begun with by others.
//!
//! Everything is measured as a command, from its start to its end: ours, `cp -a` of the same tree on
//! the same filesystem, and `docker commit` of a container that wrote the same.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::Duration;

use bulkhead_spec::Bytes;
use serde::Serialize;

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::bench::dockerd::{Dockerd, IMAGE};
use crate::bench::rooms::crowd::{end_all, forget_all, use_all};
use crate::bench::rooms::programs::{run, timed};
use crate::bench::rooms::site::{Site, exec, record};
use crate::bench::rooms::{Row, What};
use crate::bench::stats::Summary;
use crate::bench::table::Table;
use crate::print;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// How large the files are that a room writes: about as those of a checkout with its dependencies.
const FILE: u64 = 64 << 10;
/// How many rooms the promise speaks of.
const FORKS: &str = "100";
/// A room whose disk is copied.
const ROOM: &str = "bench-disk";
const CONTAINER: &str = "bulkhead-bench-disk";
const COMMITTED: &str = "bulkhead-bench:committed";

/// How long it took to keep or to hand on changes of this size.
#[derive(Serialize)]
pub(super) struct Disk {
    changes: Bytes,
    checkpoint: Option<Summary>,
    fork: Option<Summary>,
    copy: Option<Summary>,
    /// As a checkpoint is when its command has ended.
    copy_synced: Option<Summary>,
    docker_commit: Option<Summary>,
    notes: Vec<String>,
}

/// A hundred rooms that begin where one is: until they can be used, and until each was.
pub(super) fn forks(site: &Site, runs: u32) -> [Row; 2] {
    let measure = || {
        let client = site.runtime.block_on(site.make(ROOM))?;
        let written = ["/bin/sh", "-c", "echo changed > /tmp/file"];
        site.runtime.block_on(exec(&client, &written))?;
        let (mut times, mut ended) = ([Vec::new(), Vec::new()], Vec::new());
        for round in 0..runs {
            let name = format!("bench-fork-{round}");
            let fork = ["fork", ROOM, "-n", FORKS, "--name", &name];
            let forked = timed(|| run(&mut site.command(&fork)))?;
            let made = site.living("bench-fork-")?;
            let used = timed(|| site.runtime.block_on(use_all(&made)))?;
            let round = [forked, forked + used];
            times.iter_mut().zip(round).for_each(|(times, it)| times.push(it));
            site.runtime.block_on(end_all(&made))?;
            ended.extend(made);
        }
        // Not before: see where this is called.
        forget_all(site, &ended)?;
        site.runtime.block_on(site.end(ROOM, &client))?;
        Ok(times)
    };
    match measure() {
        Ok([forked, used]) => {
            [Row::of(What::Forks, Ok(forked)), Row::of(What::ForksUsed, Ok(used))]
        }
        Err(trouble) => {
            [Row::of(What::Forks, Err(trouble)), Row::of(What::ForksUsed, Ok(Vec::new()))]
        }
    }
}

/// Rooms with so many bytes of changes each.
pub(super) fn measure(site: &Site, runs: u32, sizes: &[Bytes]) -> Result<Vec<Disk>, Trouble> {
    let cgroup = CgroupParent::new();
    // The site's own has a bundle already.
    let scratch = Scratch::new()?;
    let bundle = Bundle::make(&scratch, &cgroup.path())?;
    let dockerd = Dockerd::private(&scratch, &bundle, &cgroup);
    let mut disks = Vec::new();
    for changes in sizes {
        print::progress(&format!("copying disks with {changes} of changes"));
        let [checkpoint, fork] = rooms(site, *changes, runs)?;
        let [copy, copy_synced] = copies(site, *changes, runs)?;
        let mut notes = Vec::new();
        let committed = dockerd.as_ref().map_err(Trouble::sentence);
        let committed = committed.and_then(|it| {
            let took = Docker(it).commits(*changes, runs);
            took.map_err(|trouble| trouble.sentence())
        });
        let docker_commit = match committed {
            Ok(times) => Summary::of(&times),
            Err(why) => {
                notes.push(format!("`docker commit` of {changes}: {why}"));
                None
            }
        };
        disks.push(Disk {
            changes: *changes,
            checkpoint: Summary::of(&checkpoint),
            fork: Summary::of(&fork),
            copy: Summary::of(&copy),
            copy_synced: Summary::of(&copy_synced),
            docker_commit,
            notes,
        });
    }
    Ok(disks)
}

/// What is written into `directory`: files of a size that programs write, of which none can be
/// compressed.
fn script(directory: &str, changes: Bytes) -> String {
    let count = changes.0;
    format!(
        "mkdir -p {directory} && cd {directory} && \
         head -c {count} /dev/urandom | split -b {FILE} -a 4"
    )
}

/// Checkpoints and forks of a room that runs.
fn rooms(site: &Site, changes: Bytes, runs: u32) -> Result<[Vec<Duration>; 2], Trouble> {
    let mut room = record(ROOM);
    // The disk is in memory, and a programs' own memory beside it.
    room.spec.limits.disk = Some(Bytes(changes.0 * 2));
    room.spec.limits.memory = Some(Bytes(changes.0 * 2 + (512 << 20)));
    let client = site.runtime.block_on(site.make_of(&room))?;
    let script = script("/tmp/changes", changes);
    site.runtime.block_on(exec(&client, &["/bin/sh", "-c", &script]))?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    let [checkpoints, forks] = &mut times;
    for _ in 0..runs {
        let create = ["checkpoint", "create", ROOM, "bench"];
        checkpoints.push(timed(|| run(&mut site.command(&create)))?);
        run(&mut site.command(&["checkpoint", "rm", "bench"]))?;
        let fork = ["fork", ROOM, "-n", "1", "--name", "bench-fork"];
        forks.push(timed(|| run(&mut site.command(&fork)))?);
        run(&mut site.command(&["rm", "--force", "bench-fork-1"]))?;
    }
    site.runtime.block_on(site.end(ROOM, &client))?;
    Ok(times)
}

/// The same tree, copied by `cp -a` where checkpoints are: as it is, and until it is on the disk.
fn copies(site: &Site, changes: Bytes, runs: u32) -> Result<[Vec<Duration>; 2], Trouble> {
    let (tree, copy) = (site.scratch.path().join("tree"), site.scratch.path().join("copy"));
    let script = script(&tree.display().to_string(), changes);
    run(programs::command("/bin/sh").args(["-c", &script]).stdin(Stdio::null()))?;
    let copied = || run(programs::command("cp").arg("-a").arg(&tree).arg(&copy));
    let synced = || run(programs::command("sync").arg("--file-system").arg(&copy));
    let removed = || {
        let failed = || format!("could not remove `{}`", copy.display());
        std::fs::remove_dir_all(&copy).or_trouble(failed)
    };
    // What the tree itself has to write is nobody's but its own.
    run(programs::command("sync").arg("--file-system").arg(&tree))?;
    let mut times: [Vec<Duration>; 2] = Default::default();
    let [plain, until_written] = &mut times;
    for _ in 0..runs {
        plain.push(timed(copied)?);
        removed()?;
        until_written.push(timed(|| copied().and_then(|()| synced()))?);
        removed()?;
    }
    let failed = || format!("could not remove `{}`", tree.display());
    std::fs::remove_dir_all(&tree).or_trouble(failed)?;
    Ok(times)
}

/// A daemon's client.
struct Docker<'a>(&'a Dockerd);

impl Docker<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = programs::command("docker");
        command.args(args).envs(self.0.env()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// `docker commit` of a container that runs and has written the same.
    fn commits(&self, changes: Bytes, runs: u32) -> Result<Vec<Duration>, Trouble> {
        let start = ["run", "-d", "--name", CONTAINER, "--network", "none", IMAGE];
        let idle = ["/bin/busybox", "sleep", "1000"];
        run(&mut self.command(&[&start[..], &idle[..]].concat()))?;
        let times = self.commits_of_running(changes, runs);
        run(&mut self.command(&["rm", "--force", CONTAINER]))?;
        times
    }

    fn commits_of_running(&self, changes: Bytes, runs: u32) -> Result<Vec<Duration>, Trouble> {
        // Its shell has no `split`.
        let files = changes.0 / FILE;
        let script = format!(
            "b=/bin/busybox; $b mkdir /changes; i=0; while [ $i -lt {files} ]; do \
             $b dd if=/dev/urandom of=/changes/$i bs={FILE} count=1 2>/dev/null || exit 1; \
             i=$((i+1)); done"
        );
        run(&mut self.command(&["exec", CONTAINER, "/bin/busybox", "sh", "-c", &script]))?;
        let mut times = Vec::new();
        for _ in 0..runs {
            times.push(timed(|| run(&mut self.command(&["commit", CONTAINER, COMMITTED])))?);
            run(&mut self.command(&["image", "rm", COMMITTED]))?;
        }
        Ok(times)
    }
}

/// All sizes, side by side.
pub(super) struct Disks<'a>(pub(super) &'a [Disk]);

impl fmt::Display for Disks<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "changes",
            "runs",
            "checkpoint, ms",
            "`cp -a` and sync",
            "`docker commit`",
            "fork -n 1",
            "`cp -a`",
        ]);
        let number =
            |it: Option<Summary>| it.map_or("–".to_owned(), |it| format!("{:.1}", it.p50));
        for disk in self.0 {
            table.row([
                disk.changes.to_string(),
                disk.checkpoint.map_or("–".to_owned(), |it| it.runs.to_string()),
                number(disk.checkpoint),
                number(disk.copy_synced),
                number(disk.docker_commit),
                number(disk.fork),
                number(disk.copy),
            ]);
        }
        write!(out, "{table}")?;
        for note in self.0.iter().flat_map(|it| &it.notes) {
            write!(out, "\n- {note}")?;
        }
        Ok(())
    }
}
