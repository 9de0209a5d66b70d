//! The host has too little of something.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::drill::site::{Site, ended, must, refused};
use crate::drill::{Drill, Seen};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

pub(super) const DISK: Drill =
    Drill { name: "R6", what: "no space for the state, and none in the workspace", run: disk };

pub(super) const POOLS: Drill =
    Drill { name: "R7", what: "no inodes, few descriptors, few processes", run: pools };

pub(super) const MEMORY: Drill = Drill {
    name: "R8",
    what: "a flood of output to a command with little memory",
    run: memory,
};

pub(super) const SLOW_DISK: Drill = Drill {
    name: "R14",
    what: "a disk that is slow for one, and not for the others",
    run: slow,
};

fn disk(site: &Site) -> Result<Seen, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Seen::Untried("mounting takes root".to_owned()));
    }
    // Twice of what is kept in reserve.
    let small = Small::mount(site.dir("small")?, "size=128m")?;
    let filler = small.path.join("filler");
    fs::write(&filler, vec![b'x'; 129 << 20])
        .err()
        .ok_or_else(|| Trouble::new("a file of 129 MiB fits into 128 MiB"))?;
    let mut create = site.command(&["create", "--name", "full"]);
    create.env("BULKHEAD_HOME", &small.path);
    let refusal = programs::last_line(&refused(&mut create)?);
    fs::remove_file(&filler).or_trouble(|| "could not make space".to_owned())?;
    for args in [&["create", "--name", "full"][..], &["rm", "--force", "full"]] {
        let mut command = site.command(args);
        command.env("BULKHEAD_HOME", &small.path);
        let again = ended(&mut command)?;
        must(again.status.success(), || format!("with space again: {}", again.stderr))?;
    }
    drop(small);

    let small = Small::mount(site.dir("small")?, "size=64k")?;
    let mut run =
        site.command(&["run", "--", "sh", "-c", "head -c 1M /dev/zero > file; echo on"]);
    run.current_dir(&small.path);
    let said = ended(&mut run)?;
    must(said.stdout == "on\n" && said.stderr.contains("No space left"), || {
        format!("in a full workspace: `{}` `{}`", said.stdout, said.stderr)
    })?;
    Ok(Seen::Held(format!("refused ({refusal}), and well again with space")))
}

fn pools(site: &Site) -> Result<Seen, Trouble> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Seen::Untried("mounting takes root".to_owned()));
    }
    let small = Small::mount(site.dir("small")?, "nr_inodes=4")?;
    let mut create = site.command(&["create", "--name", "full"]);
    create.env("BULKHEAD_HOME", &small.path);
    refused(&mut create)?;
    drop(small);
    let shell = |script: &str| {
        let mut command = programs::command("/bin/sh");
        command.args(["-c", script]).arg(site.bulkhead());
        site.dress(&mut command);
        command
    };
    // Few descriptors: it works with them, or says why not.
    for count in [64, 12, 5] {
        let script = format!("ulimit -n {count}; exec \"$0\" run -- true");
        let done = ended(&mut shell(&script))?;
        let fine = done.status.success()
            || done.status.code() == Some(125) && !done.stderr.contains("panicked");
        must(fine, || format!("{count} descriptors: {} {}", done.status, done.stderr))?;
    }
    let Some(group) = Group::make("pids", "pids.max", "3") else {
        return Ok(Seen::Held(
            "no inodes and few descriptors are refused; no pids cgroup".into(),
        ));
    };
    let script = format!("echo $$ > '{}'; exec \"$0\" run -- true", group.procs());
    let done = ended(&mut shell(&script))?;
    must(!done.stderr.contains("panicked") && done.status.code().is_some(), || {
        format!("with 3 processes: {} {}", done.status, done.stderr)
    })?;
    Ok(Seen::Held("each refused in words, or done all the same".to_owned()))
}

fn memory(site: &Site) -> Result<Seen, Trouble> {
    let Some(group) = Group::make("memory", "memory.limit_in_bytes", "134217728") else {
        return Ok(Seen::Untried("no memory cgroup of this host can be made".to_owned()));
    };
    let script = format!(
        "echo $$ > '{}'; exec \"$0\" run --output 4GiB -- head -c 1G /dev/zero",
        group.procs()
    );
    let mut flood = programs::command("/bin/sh");
    flood.args(["-c", &script]).arg(site.bulkhead());
    site.dress(&mut flood);
    let mut flood = flood
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .or_trouble(|| "could not start".to_owned())?;
    let count = flood.stdout.take().map_or(Ok(0), |mut from| {
        // Slow at first: what is not taken must wait inside.
        std::thread::sleep(Duration::from_secs(1));
        std::io::copy(&mut from, &mut std::io::sink())
    });
    let count = count.or_trouble(|| "could not read the flood".to_owned())?;
    let status = crate::drill::site::in_time(&mut flood)?;
    must(status.success() && count == 1 << 30, || {
        format!("{count} bytes came, and it ended with {status}")
    })?;
    Ok(Seen::Held("1 GiB passed through a command with 128 MiB".to_owned()))
}

fn slow(site: &Site) -> Result<Seen, Trouble> {
    let Some(group) = throttled(site)? else {
        return Ok(Seen::Untried("no cgroup of this host slows a disk down".to_owned()));
    };
    site.create("quick", 1)?;
    let script = format!("echo $$ > '{}'; exec \"$0\" create --name slow", group.procs());
    let mut create = programs::command("/bin/sh");
    create.args(["-c", &script]).arg(site.bulkhead());
    site.dress(&mut create);
    let mut create = create
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .or_trouble(|| "could not start".to_owned())?;
    let before = Instant::now();
    for _ in 0..10 {
        site.say(&["exec", "quick", "--", "true"])?;
    }
    let took = before.elapsed() / 10;
    let status = crate::drill::site::in_time(&mut create)?;
    must(status.success(), || format!("the slow one ended with {status}"))?;
    must(took < Duration::from_secs(2), || format!("each took {} ms", took.as_millis()))?;
    site.forget_all()?;
    Ok(Seen::Held(format!("a program in another room took {} ms meanwhile", took.as_millis())))
}

/// A cgroup that lets the disk of the state take 64 KiB a second.
fn throttled(site: &Site) -> Result<Option<Group>, Trouble> {
    let path = site.journal();
    let status = rustix::fs::stat(&path)
        .or_trouble(|| format!("could not look at `{}`", path.display()))?;
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    Ok(Group::make(
        "blkio",
        "blkio.throttle.write_bps_device",
        &format!("{major}:{minor} 65536"),
    ))
}

/// A small file system of its own; `Drop` takes it away.
pub(super) struct Small {
    path: PathBuf,
}

impl Small {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn mount(path: PathBuf, options: &str) -> Result<Self, Trouble> {
        let options = format!("{options},mode=0755");
        programs::output(
            programs::command("mount")
                .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
                .arg(&path),
        )?;
        Ok(Self { path })
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(programs::output(programs::command("umount").arg("--lazy").arg(&self.path)));
        drop(fs::remove_dir(&self.path));
    }
}

/// A cgroup of a version 1 hierarchy; `Drop` removes it.
struct Group(PathBuf);

impl Group {
    /// `None` where this host has no such hierarchy, or does not let us.
    fn make(hierarchy: &str, file: &str, value: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup").join(hierarchy);
        let dir = root.join(format!("drill-{}", std::process::id()));
        if !root.join("cgroup.procs").exists() || fs::create_dir(&dir).is_err() {
            return None;
        }
        let group = Self(dir);
        if fs::write(group.0.join(file), value).is_err() {
            return None;
        }
        Some(group)
    }

    fn procs(&self) -> String {
        self.0.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may need a moment to be gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
