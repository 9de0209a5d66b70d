//! No program can gain a privilege that it did not start with.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
};

use bulkhead_backends::Backend;
use bulkhead_spec::Syscalls;
use libtest_mimic::Failed;
use rustix::fs::getxattr;

use crate::{
    attack::{Attack, Verdict, attacks},
    host,
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites holds_no_capability,
    Bites a_set_user_id_program_lends_nothing,
    Bites leaves_no_set_user_id_program,
    BitesAsRoot becomes_nobody_else,
    BitesAsRoot makes_no_device,
    Bites makes_no_namespace,
    BitesAsRoot enters_no_namespace,
    BitesAsRoot changes_no_root,
    Bites controls_no_other_process,
];

fn holds_no_capability(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines())
# Not every kernel lists all of them; those are asked for one by one.
PR_CAPBSET_READ, PR_CAP_AMBIENT_IS_SET, PR_GET_NO_NEW_PRIVS, ALL = 23, 1, 39, range(41)
asked = {
    "CapBnd": lambda: any(libc.prctl(PR_CAPBSET_READ, it, 0, 0, 0) == 1 for it in ALL),
    "CapAmb": lambda: any(libc.prctl(47, PR_CAP_AMBIENT_IS_SET, it, 0, 0) == 1 for it in ALL),
}
for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]:
    if (int(status[name], 16) if name in status else asked[name]()):
        broken(f"{name} {status.get(name)}")
if status.get("NoNewPrivs", str(libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))) != "1":
    broken("new privileges are possible")
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_SET_SECUREBITS = 38, 47, 28
if libc.prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) == 0 or libc.prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0:
    broken("a lock was opened")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// Root makes one that belongs to somebody else; an ordinary user has those of the host.
fn a_set_user_id_program_lends_nothing(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let program = if host::is_root() {
        let copy = room.workspace().join("copy");
        fs::copy("/usr/bin/cat", &copy)?;
        fs::set_permissions(room.workspace(), fs::Permissions::from_mode(0o755))?;
        chown(&copy, Some(12_345), Some(12_345))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o6755))?;
        copy.display().to_string()
    } else {
        "/usr/bin/su".to_owned()
    };
    let script = r#"
import subprocess, time
def identity(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return [line.split()[2] for line in lines if line.startswith(("Uid:", "Gid:"))]

def name(pid):
    return open(f"/proc/{pid}/comm").read().strip()

# It reads from the pipe, so it lives until it is ended.
process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
end = time.monotonic() + 10
while name(process.pid) != os.path.basename(args[0]):
    if time.monotonic() > end:
        raise SystemExit("it does not start")
lent = identity(process.pid)
works(process.kill)
if lent != identity(os.getpid()):
    broken(f"runs as {lent}")
held()
"#;
    room.attack(script, &[&program])
}

/// It would belong to the workspace's owner, and run as that one for everybody on the host.
fn leaves_no_set_user_id_program(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let script = r#"
path = "lender"
open(path, "w").write("a program")
file = os.open(path, os.O_RDWR)
for way in [
    lambda: os.chmod(path, 0o4755),
    lambda: os.fchmod(file, 0o6755),
    lambda: os.chmod(path, 0o2755),
    lambda: os.close(os.open("lender2", os.O_CREAT | os.O_WRONLY, 0o4755)),
    lambda: os.mkdir("lender3", 0o2755),
    lambda: os.mknod("lender4", stat.S_IFREG | 0o4755),
    lambda: os.chmod("/proc/self/cwd/" + path, 0o4755),
    lambda: os.setxattr(path, "security.capability", bytes.fromhex("01000002" + "ff" * 16)),
]:
    works(way)
"#;
    room.says(script, &[])?;
    for entry in fs::read_dir(room.workspace())? {
        let entry = entry?;
        let lends = entry.metadata()?.mode() & 0o6000 != 0;
        if lends || getxattr(entry.path(), "security.capability", &mut [0_u8; 64]).is_ok() {
            return Ok(Verdict::Broken(format!("{} is one", entry.path().display())));
        }
    }
    Ok(Verdict::Held)
}

fn becomes_nobody_else(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
for who in [0, 1, 65534]:
    for way in [os.setuid, os.setgid, os.seteuid, os.setegid, lambda it: os.setgroups([it])]:
        if in_child(lambda: 0 if works(way, who) else 1) == 0:
            broken(f"user or group {who}")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn makes_no_device(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
null, disk = os.makedev(1, 3), os.makedev(254, 0)
for dir in [".", "/tmp"]:
    for kind, device in [(stat.S_IFCHR, null), (stat.S_IFBLK, disk)]:
        path = f"{dir}/device-{os.getpid()}"
        if works(os.mknod, path, kind | 0o600, device):
            os.unlink(path)
            broken(f"made {path}")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// In a new user namespace a process has every capability, and reaches code of the kernel that was
/// written for root alone.
fn makes_no_namespace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
for flag in [NEWUSER, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET, NEWUSER | NEWNS]:
    if in_child(lambda: 0 if libc.unshare(flag) == 0 else 1) == 0:
        broken(f"unshare {flag:x}")
if works(lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1")):
    broken("changed who it is outside")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn enters_no_namespace(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
def enter(path):
    file = os.open(path, os.O_RDONLY)
    if libc.setns(file, 0) == -1:
        raise OSError(ctypes.get_errno(), "setns")

for kind in ["ipc", "uts", "net", "cgroup", "mnt", "pid"]:
    for pid in [1, os.getppid()]:
        if in_child(lambda: 0 if works(enter, f"/proc/{pid}/ns/{kind}") else 1) == 0:
            broken(f"{kind} of {pid}")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

fn changes_no_root(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
if in_child(lambda: 0 if works(os.chroot, "/usr") else 1) == 0:
    broken("chroot")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// Not even where debuggers are allowed may a program look into what it runs under. Without walls,
/// the part of PID 1 is taken by a process that the script did not start.
fn controls_no_other_process(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.syscalls = Syscalls::Debug;
    let bystander = Room::new(backend)?;
    let token = bystander.token();
    let mut other =
        bystander.enter("say('ready')\nsignal.alarm(20)\nsignal.pause()", &[&token])?;
    other.hear("ready")?;
    let seen = host::processes_with(&token);
    let target = match (room.is_open(), seen.first()) {
        (false, _) => "1".to_owned(),
        (true, Some(pid)) => pid.as_raw_nonzero().to_string(),
        (true, None) => return Err("the bystander is not there".into()),
    };
    let calls = format!(
        "PIDFD_OPEN, PIDFD_GETFD, READV = {}, {}, {}",
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_vm_readv,
    );
    let script = r#"
pid = int(args[0])
PTRACE_SEIZE, PTRACE_ATTACH = 0x4206, 16
for name in ["mem", "environ", "maps"]:
    if works(opened, f"/proc/{pid}/{name}", os.O_RDONLY):
        broken(name)
if works(opened, f"/proc/{pid}/mem", os.O_RDWR):
    broken("memory")
if in_child(lambda: 0 if libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0 else 1) == 0:
    broken("ptrace")
handle = call(PIDFD_OPEN, pid, 0)
if handle < 0:
    raise SystemExit("no handle of the process")
for number in range(8):
    if call(PIDFD_GETFD, handle, number, 0) >= 0:
        broken(f"descriptor {number}")
buffer = (ctypes.c_char * 8)()
vector = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
remote = (ctypes.c_ulong * 2)(0x400000, 8)
where = ctypes.addressof
if call(READV, pid, where(vector), 1, where(remote), 1, 0) not in (-errno.EPERM, -errno.ESRCH):
    broken("process_vm_readv")
held()
"#;
    let verdict = room.attack(&format!("{calls}\n{script}"), &[&target]);
    other.kill()?;
    verdict
}
