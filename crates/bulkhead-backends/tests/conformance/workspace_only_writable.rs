//! Of the host's files, only those that the plan makes writable can be changed.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
};

use bulkhead_backends::Backend;
use bulkhead_spec::Access;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites changes_nothing_outside_the_workspace,
    Bites links_no_file_from_outside,
    Bites changes_nothing_in_a_read_only_workspace,
    Bites changes_nothing_in_a_read_only_share,
    Bites changes_to_a_private_share_stay_inside,
    BitesAsRoot changes_no_program_of_the_host,
    BitesAsRoot changes_no_setting_of_the_kernel,
    BitesAsRoot changes_not_what_it_runs_under,
    BitesAsRoot mounts_nothing_on_the_host,
    Bites dumps_no_core,
];

const BEFORE: &str = "as it was";

/// What a script tries on each path that it is given.
const SPOIL: &str = r#"
def spoil(path):
    ways = [
        lambda: open(path, "a").write("spoiled"),
        lambda: os.truncate(path, 1),
        lambda: os.chmod(path, 0o777),
        lambda: os.utime(path, (1, 1)),
        lambda: os.setxattr(path, "user.spoiled", b"1"),
        lambda: os.rename(path, path + ".away"),
        lambda: os.unlink(path),
        lambda: open(path, "w").write("spoiled"),
        lambda: os.mkdir(path + ".new"),
    ]
    return [at for at, way in enumerate(ways) if works(way)]
"#;

/// By its path, by climbing, through a link, and through what `/proc` knows of the root.
fn changes_nothing_outside_the_workspace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let target = room.outside().join("file");
    fs::write(&target, BEFORE)?;
    symlink(room.outside(), room.workspace().join("link"))?;
    let script = format!(
        r#"{SPOIL}
path = args[0]
name = os.path.basename(path)
for way in [path, "../.." + path, "link/" + name, "/proc/self/root" + path, "/proc/1/root" + path,
            "/proc/self/cwd/../.." + path]:
    spoil(way)
open("made-inside", "w").write("this is allowed")
"#
    );
    let said = room.says(&script, &[&target.display().to_string()])?;
    let inside = fs::metadata(room.workspace().join("made-inside"))
        .map_err(|_| format!("the workspace cannot be written: {said}"))?;
    let workspace = fs::metadata(room.workspace())?;
    if (inside.uid(), inside.gid()) != (workspace.uid(), workspace.gid()) {
        return Ok(Verdict::Broken(format!("what is made belongs to user {}", inside.uid())));
    }
    unchanged(&target)
}

/// Whether a file is alone in its directory, and as it was.
fn unchanged(file: &std::path::Path) -> Result<Verdict, Failed> {
    let dir = file.parent().ok_or("a file without a directory")?;
    let beside = fs::read_dir(dir)?.count() != 1;
    let content = fs::read_to_string(file).unwrap_or_default();
    let broken = beside || content != BEFORE;
    Ok(Verdict::broken_if(broken.then(|| format!("{} was changed", file.display()))))
}

fn links_no_file_from_outside(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let target = room.outside().join("file");
    fs::write(&target, BEFORE)?;
    let script = r#"
if works(os.link, args[0], "mine") or works(os.link, "/usr/bin/env", "mine"):
    broken("linked")
held()
"#;
    room.attack(script, &[&target.display().to_string()])
}

fn changes_nothing_in_a_read_only_workspace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    room.set_access(Access::ReadOnly);
    let target = room.workspace().join("file");
    fs::write(&target, BEFORE)?;
    room.says(&format!("{SPOIL}\nspoil('file')"), &[])?;
    unchanged(&target)
}

fn changes_nothing_in_a_read_only_share(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    let target = room.outside().join("file");
    fs::write(&target, BEFORE)?;
    let outside = room.outside().to_owned();
    room.share(&outside, Access::ReadOnly)?;
    let script = format!("{SPOIL}\nopen(args[0]).read()\nspoil(args[0])\nheld()");
    room.attack(&script, &[&target.display().to_string()])?;
    unchanged(&target)
}

fn changes_to_a_private_share_stay_inside(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    let target = room.outside().join("file");
    fs::write(&target, BEFORE)?;
    let outside = room.outside().to_owned();
    room.share(&outside, Access::Private)?;
    let script = format!(
        r#"{SPOIL}
spoil(args[0])
if open(args[0]).read() != "spoiled":
    raise SystemExit("it cannot be changed inside either")
held()
"#
    );
    room.attack(&script, &[&target.display().to_string()])?;
    unchanged(&target)
}

/// Asks and opens, and writes nothing.
fn changes_no_program_of_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for path in ["/", "/usr", "/usr/bin", "/etc", "/etc/ssl/certs", "/dev", "/usr/lib"]:
    if os.path.isdir(path) and os.access(path, os.W_OK):
        broken(path)
for path in ["/usr/lib/os-release", "/etc/hosts", "/etc/passwd", "/etc/ld.so.cache"]:
    if works(opened, path, os.O_WRONLY):
        broken(path)
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// A process that is root on the host could, whatever capabilities it has given up: the kernel
/// looks at the owner of these files. Opens them, and writes nothing.
fn changes_no_setting_of_the_kernel(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
def walk(path):
    if not works(os.scandir, path):
        return
    for entry in os.scandir(path):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            if not entry.name.isdigit():
                yield from walk(entry.path)
        else:
            yield entry.path

def is_nothing(path):
    """What a daemon puts over files that are not to be read."""
    return works(os.stat, path) and os.stat(path).st_rdev == os.stat("/dev/null").st_rdev

tried = 0
for path in ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", *walk("/proc")]:
    # To write there is to wait for something, which anybody may; it changes nothing.
    if path.startswith("/proc/pressure/"):
        continue
    if works(opened, path, os.O_WRONLY) and not is_nothing(path):
        broken(path)
    tried += 1
if tried < 50:
    raise SystemExit(f"there were only {tried} files to try")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// What runs as PID 1 is the host's own program (CVE-2019-5736).
fn changes_not_what_it_runs_under(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for path in ["/proc/1/exe", "/proc/self/exe", sys.executable]:
    try:
        opened(path, os.O_WRONLY)
        broken(path)
    except OSError as error:
        # Only the program's being run keeps it from being written, unless it lies where nothing
        # can be: the kernel looks at that last.
        if error.errno == errno.ETXTBSY and not os.statvfs(path).f_flag & os.ST_RDONLY:
            broken(path)
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn mounts_nothing_on_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let here = room.workspace().join("here");
    fs::create_dir(&here)?;
    let script = r#"
libc.mount(b"tried", b"here", b"tmpfs", 0, b"size=4096")
say("mounted")
sys.stdin.read()
signal.alarm(20)
signal.pause()
"#;
    let mut inside = room.enter(script, &[])?;
    inside.hear("mounted")?;
    let during = mounts_near(&room)?;
    inside.kill()?;
    drop(inside);
    let after = mounts_near(&room)?;
    if room.is_open() {
        rustix::mount::unmount(&here, rustix::mount::UnmountFlags::DETACH)?;
    }
    let seen = [during, after].concat();
    Ok(Verdict::broken_if((!seen.is_empty()).then(|| seen.join("; "))))
}

/// The mounts of the host that have to do with `room`.
fn mounts_near(room: &Room<'_>) -> Result<Vec<String>, Failed> {
    let near = [room.workspace(), room.outside()].map(|it| it.display().to_string());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    // Where what a daemon is to show is laid ready, for others: this sandbox stands already.
    let laid = |line: &str| room.is_contained() && line.contains("/stages/");
    let ours = |line: &&str| {
        let ready = line.contains(" bulkhead ") && !laid(line);
        ready || near.iter().any(|it| line.contains(it))
    };
    Ok(mounts.lines().filter(ours).map(str::to_owned).collect())
}

/// The host's kernel would hand it to a program of the host, or write it to the workspace.
fn dumps_no_core(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import resource
if works(resource.setrlimit, resource.RLIMIT_CORE, (1 << 20, 1 << 20)):
    broken("may dump core")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}
