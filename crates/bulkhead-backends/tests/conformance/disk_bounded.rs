//! What is written outside the workspace has a ceiling, in bytes and in files.
//!
//! Where there are no walls, a directory of the suite's own takes the place of the private ones.

use bulkhead_backends::Backend;
use bulkhead_spec::{Access, Bytes, Ending};
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites writes_no_more_than_allowed,
    Bites reserves_no_more_than_allowed,
    Bites copies_no_more_than_allowed,
    Bites makes_no_more_files_than_allowed,
    CannotBeBuilt a_full_disk_is_said_to_be_the_reason,
];

const LIMIT: Bytes = Bytes(16 << 20);

fn room(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.limits.disk = Some(LIMIT);
    room.spec.limits.inodes = Some(1000);
    room.spec.tmpfs = vec!["/scratch".parse()?];
    Ok(room)
}

/// Runs `script` with every place that can be written as its arguments.
fn fill(room: &Room<'_>, script: &str) -> Result<Verdict, Failed> {
    let outside = room.outside().display().to_string();
    if room.is_open() {
        return room.attack(script, &[&outside]);
    }
    let private = ["/tmp", "/var/tmp", "/home/sandbox", "/run", "/dev/shm", "/scratch"];
    room.attack(script, &private)
}

const WRITE: &str = r#"
total = 0
for dir in args:
    file = os.open(dir + "/large", os.O_CREAT | os.O_WRONLY)
    try:
        for _ in range(48):
            total += os.write(file, b"x" * (1 << 20))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
"#;

/// In all places together: one file in each would otherwise be many times the limit.
fn writes_no_more_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let verdict = r#"
if total > 18 << 20:
    broken(f"{total >> 20} MiB written")
if total < 8 << 20:
    raise SystemExit(f"only {total} bytes can be written")
held()
"#;
    fill(&room(backend)?, &format!("{WRITE}{verdict}"))
}

fn reserves_no_more_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for dir in args:
    file = os.open(dir + "/reserved", os.O_CREAT | os.O_WRONLY)
    if works(os.posix_fallocate, file, 0, 48 << 20):
        broken(f"48 MiB reserved in {dir}")
    os.close(file)
    os.unlink(dir + "/reserved")
held()
"#;
    fill(&room(backend)?, script)
}

/// A private share is copied as soon as it is written to.
fn copies_no_more_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = room(backend)?;
    for name in ["one", "two", "three"] {
        std::fs::write(room.outside().join(name), vec![b'x'; 12 << 20])?;
    }
    let outside = room.outside().to_owned();
    room.share(&outside, Access::Private)?;
    let script = r#"
copied = [name for name in ["one", "two", "three"]
          if works(lambda: open(args[0] + "/" + name, "ab").write(b"x"))]
if len(copied) > 1:
    broken(f"{copied} of 12 MiB each")
if not copied:
    raise SystemExit("none could be copied")
held()
"#;
    room.attack(script, &[&outside.display().to_string()])
}

/// Empty files and directories take no bytes.
fn makes_no_more_files_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
made = 0
for dir in args:
    for at in range(600):
        made += works(os.mkdir, f"{dir}/{at}.d")
        made += works(os.mknod, f"{dir}/{at}.f")
        made += works(os.symlink, "x", f"{dir}/{at}.l")
        # What the sandbox needs for itself comes on top of the limit.
        if made > 1600:
            broken(f"{made} files")
if made < 500:
    raise SystemExit(f"only {made} files can be made")
held()
"#;
    fill(&room(backend)?, script)
}

fn a_full_disk_is_said_to_be_the_reason(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = format!("args = ['/tmp']\n{WRITE}\nraise SystemExit(1)");
    let said = room(backend)?.says(&script, &[])?;
    let right = said.ending == Ending::DiskFull { limit: Some(LIMIT) };
    Ok(Verdict::broken_if((!right).then(|| format!("{said}"))))
}
