//! Only the files that the plan names can be seen.

mod other_roots;

use std::{
    fs,
    os::{fd::AsRawFd as _, unix::fs::symlink},
    path::Path,
};

use bulkhead_backends::Backend;
use libtest_mimic::Failed;
use rustix::fs::{Mode, OFlags};

use self::other_roots::{
    a_root_with_a_link_for_a_directory_is_refused, a_shared_link_is_refused,
    a_swapped_share_shows_nothing_else,
};
use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites reads_no_passwords,
    Bites sees_only_the_planned_root,
    Bites reads_nothing_outside_the_workspace,
    Bites reads_no_secrets_in_the_workspace,
    Bites reads_no_secret_behind_a_link,
    Bites sees_no_process_of_the_host,
    Bites sees_no_sibling,
    Bites reads_nothing_about_the_kernel,
    Bites sees_no_device_of_the_host,
    Bites sees_no_cgroups,
    BitesAsRoot reads_nothing_of_init,
    Bites inherits_no_descriptor,
    Bites a_descriptor_is_no_working_directory,
    CannotBeBuilt a_root_with_a_link_for_a_directory_is_refused,
    CannotBeBuilt a_shared_link_is_refused,
    CannotBeBuilt a_swapped_share_shows_nothing_else,
];

const SECRET: &str = "a secret of the host";

fn reads_no_passwords(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for path in ["/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/machine-id", "/root", "/var/lib"]:
    if works(os.stat, path):
        broken(path)
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn sees_only_the_planned_root(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
planned = "bin dev etc home lib lib32 lib64 libx32 proc run sbin tmp usr var".split()
found = set(os.listdir("/")) - {*planned, *args, "nix", "gnu"}
if found:
    broken(found)
users = [line.split(":")[0] for line in open("/etc/passwd")]
if users != ["root", "nobody", "sandbox"]:
    broken(users)
for path in ["/run", "/tmp", "/var/tmp", "/home/sandbox"]:
    # On the way to the workspace there is nothing beside it.
    beside = set(os.listdir(path)) - {os.path.basename(os.getcwd())}
    if beside:
        broken(beside)
held()
"#;
    let room = Room::new(backend)?;
    // A daemon's own mark, its `/sys`, and where the guest lies.
    let also = [".dockerenv", ".bulkhead", "sys"];
    room.attack(script, if room.is_contained() { &also } else { &[] })
}

/// By its path, by climbing, through a link, and through what `/proc` knows of the root.
fn reads_nothing_outside_the_workspace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let target = room.outside().join("id_ed25519");
    fs::write(&target, SECRET)?;
    symlink(&target, room.workspace().join("link"))?;
    let script = r#"
path = args[0]
for way in [path, "../.." + path, "link", "/proc/self/root" + path, "/proc/1/root" + path,
            "/proc/self/cwd/../.." + path, "/proc/1/cwd" + path, "/proc/self/fd/0" + path]:
    if works(lambda: open(way).read()):
        broken(way)
held()
"#;
    room.attack(script, &[&target.display().to_string()])
}

/// Whatever the case of their names (CVE-2025-59944), and not by another name either.
fn reads_no_secrets_in_the_workspace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    fs::create_dir_all(room.workspace().join("deep/er"))?;
    let names = [".env", ".ENV", ".env.production", "deep/.env.local", "deep/er/.env~"];
    for name in names {
        fs::write(room.workspace().join(name), SECRET)?;
    }
    let script = r#"
for name in args:
    if works(os.link, name, "by-another-name") or works(os.rename, name, "elsewhere"):
        broken(name)
    if open(name).read():
        broken(name)
    if works(lambda: open(name, "w").write("changed")):
        broken(name)
held()
"#;
    let verdict = room.attack(script, &names)?;
    for name in names {
        if fs::read_to_string(room.workspace().join(name)).ok().as_deref() != Some(SECRET) {
            return Ok(Verdict::Broken(format!("{name} was changed")));
        }
    }
    Ok(verdict)
}

/// A `.env` is often a link to the one of several that is in use.
fn reads_no_secret_behind_a_link(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    fs::create_dir(room.workspace().join("settings"))?;
    fs::write(room.workspace().join("settings/local"), SECRET)?;
    symlink("settings/local", room.workspace().join(".env"))?;
    let script = r#"
for path in [".env", "settings/local"]:
    if works(lambda: open(path).read()) and open(path).read():
        broken(path)
held()
"#;
    room.attack(script, &[])
}

fn sees_no_process_of_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
host = int(args[0])
if works(os.kill, host, 0) or os.path.exists(f"/proc/{host}"):
    broken(f"process {host} of the host")
strangers = [it for it in os.listdir("/proc") if it.isdigit() and int(it) not in (1, os.getpid())]
if strangers:
    broken(strangers)
held()
"#;
    Room::new(backend)?.attack(script, &[&std::process::id().to_string()])
}

/// Two sandboxes of one caller do not know of each other.
fn sees_no_sibling(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let (sibling, room) = (Room::new(backend)?, Room::new(backend)?);
    let waits = r#"
open("/tmp/" + args[1], "w").close()
say("ready")
signal.alarm(20)
signal.pause()
"#;
    let token = sibling.token();
    let left = format!("{}-left", sibling.outside().file_name().unwrap_or_default().display());
    let mut there = sibling.enter(waits, &[&token, &left])?;
    there.hear("ready")?;
    let script = r#"
def has(pid):
    try:
        return args[0].encode() in open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return False

seen = [it for it in os.listdir("/proc") if it.isdigit() and int(it) != os.getpid()]
found = [it for it in seen if has(it)]
if found:
    broken(f"sees process {found}")
if os.path.exists("/tmp/" + args[1]):
    broken("sees its files")
held()
"#;
    let verdict = room.attack(script, &[&token, &left]);
    there.kill()?;
    // Where there are no walls, it was left in the host's own.
    fs::remove_file(Path::new("/tmp").join(left)).unwrap_or_default();
    verdict
}

/// What of `/proc` and `/sys` tells about the host or its kernel is absent or empty.
///
/// The log of the kernel is not read, because reading takes it from whoever it is for; that it is
/// covered can be seen from the file system that it lies on.
fn reads_nothing_about_the_kernel(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
proc = os.stat("/proc/self").st_dev
if works(os.stat, "/proc/kmsg") and os.stat("/proc/kmsg").st_dev == proc:
    broken("/proc/kmsg")
for name in """interrupts kallsyms kcore key-users keys latency_stats modules pagetypeinfo
               sched_debug slabinfo timer_list timer_stats vmallocinfo""".split():
    def read():
        with open("/proc/" + name, "rb") as file:
            return file.read(64)
    if works(read) and read():
        broken("/proc/" + name)
for path in ["/proc/acpi", "/proc/scsi", "/proc/asound", "/sys"]:
    if works(os.listdir, path) and os.listdir(path):
        broken(path)
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn sees_no_device_of_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
planned = """fd full null ptmx pts random shm stderr stdin stdout tty urandom zero""".split()
found = set(os.listdir("/dev")) - {*planned, *args}
if found:
    broken(found)
for name in os.listdir("/dev/pts"):
    if name != "ptmx":
        broken(f"terminal {name}")
held()
"#;
    let room = Room::new(backend)?;
    // The message queues of a container are its own.
    room.attack(script, if room.is_contained() { &["mqueue", "core"] } else { &[] })
}

/// A cgroup's `release_agent` is run by the host's kernel, as root (CVE-2022-0492).
fn sees_no_cgroups(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for line in open("/proc/self/mountinfo"):
    options, kind = line.split()[5], line.split(" - ")[1].split()[0]
    if kind in args and "ro" in options.split(","):
        continue
    if kind in ("cgroup", "cgroup2", "sysfs", "securityfs", "debugfs", "tracefs", "bpf", "fuse"):
        broken(line)
for place, dirs, files in os.walk("/sys"):
    for name in files:
        if works(opened, f"{place}/{name}", os.O_WRONLY):
            broken(f"{place}/{name}")
held()
"#;
    let room = Room::new(backend)?;
    // A daemon shows a container its own part of them, and nothing there can be written.
    room.attack(script, if room.is_contained() { &["sysfs", "cgroup", "cgroup2"] } else { &[] })
}

fn reads_nothing_of_init(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for name in ["environ", "mem", "maps", "auxv", "syscall", "stack"]:
    if works(opened, f"/proc/1/{name}", os.O_RDONLY):
        broken(name)
for name in ["exe", "cwd", "root"]:
    if works(os.readlink, f"/proc/1/{name}"):
        broken(name)
for name in ["fd", "map_files"]:
    if works(os.listdir, f"/proc/1/{name}"):
        broken(name)
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// A directory of the host that somebody forgot to close (CVE-2024-21626).
fn inherits_no_descriptor(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    fs::write(room.outside().join("secret"), SECRET)?;
    let forgotten = rustix::fs::open(room.outside(), OFlags::RDONLY, Mode::empty())?;
    let script = r#"
for number in os.listdir("/proc/self/fd"):
    if int(number) > 2 and works(os.fstat, int(number)):
        broken(f"descriptor {number}: {os.readlink('/proc/self/fd/' + number)}")
held()
"#;
    let verdict = room.attack(script, &[]);
    drop(forgotten);
    verdict
}

/// The same directory by way of the working directory.
fn a_descriptor_is_no_working_directory(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    fs::write(room.outside().join("secret"), SECRET)?;
    let forgotten = rustix::fs::open(room.outside(), OFlags::RDONLY, Mode::empty())?;
    let way = room.workspace().join("way");
    symlink(format!("/proc/self/fd/{}", forgotten.as_raw_fd()), &way)?;
    let script = r#"
if works(os.stat, "secret") or not works(os.getcwd):
    broken("started outside")
held()
"#;
    let entered = room.enter_at(Some(way), script, &[]);
    drop(forgotten);
    match entered {
        Ok(mut inside) => {
            let ending = inside.wait()?;
            inside.destroy(ending)?.verdict()
        }
        Err(refused)
            if refused.message().is_some_and(|it| it.starts_with("cannot start in")) =>
        {
            Ok(Verdict::Held)
        }
        Err(failed) => Err(failed),
    }
}
