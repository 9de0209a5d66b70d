//! Only listed system calls reach the kernel.

mod probes;

use bulkhead_backends::Backend;
use libtest_mimic::Failed;

use self::probes::{MOUNTS, PROBES, Probe};
use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    BitesAsRoot reaches_nothing_that_is_dangerous,
    BitesAsRoot reaches_nothing_that_mounts,
    BitesAsRoot opens_no_special_socket,
    Bites types_into_no_terminal,
    Bites reaches_nothing_by_another_architecture,
];

/// A call that answers as the filter does has not reached the kernel.
fn reaches_none(backend: &dyn Backend, probes: &[Probe]) -> Result<Verdict, Failed> {
    let row =
        |it: &Probe| format!("({:?}, {}, {:?}, {})", it.name, it.number, it.args, it.refusal);
    let table = probes.iter().map(row).collect::<Vec<_>>().join(", ");
    let script = r#"
reached, refused = [], []
for name, number, arguments, refusal in PROBES:
    answer = call(number, *arguments)
    if answer != -refusal:
        reached.append(f"{name}: {answer}")
    else:
        refused.append(name)
# Where nothing is filtered, all of them must be reached: one that is not proves nothing elsewhere.
if reached and refused:
    raise SystemExit(f"reached {reached} and not {refused}")
if reached:
    broken(reached)
held()
"#;
    Room::new(backend)?.attack(&format!("PROBES = [{table}]\n{script}"), &[])
}

fn reaches_nothing_that_is_dangerous(backend: &dyn Backend) -> Result<Verdict, Failed> {
    reaches_none(backend, PROBES)
}

fn reaches_nothing_that_mounts(backend: &dyn Backend) -> Result<Verdict, Failed> {
    reaches_none(backend, MOUNTS)
}

/// Each is a driver of the kernel's (`AF_ALG`: CVE-2026-31431). Those that every kernel has come
/// first: where they are open, no module is loaded for the rest.
fn opens_no_special_socket(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import socket
STREAM, DGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
UEVENT, AUDIT, NETFILTER, CRYPTO = 15, 9, 12, 21
KEY, ALG, VSOCK, XDP, TIPC, BLUETOOTH, CAN, RDS, SMC = 15, 38, 40, 44, 30, 31, 29, 21, 43
for family, kind, protocol in [
    (socket.AF_PACKET, RAW, 0),
    (socket.AF_INET, RAW, socket.IPPROTO_ICMP),
    (socket.AF_INET6, RAW, socket.IPPROTO_ICMPV6),
    (socket.AF_NETLINK, RAW, UEVENT),
    (socket.AF_NETLINK, RAW, AUDIT),
    (socket.AF_NETLINK, RAW, NETFILTER),
    (socket.AF_NETLINK, RAW, CRYPTO),
    (socket.AF_INET, STREAM, 262),
    (VSOCK, STREAM, 0),
    (ALG, socket.SOCK_SEQPACKET, 0),
    (KEY, RAW, 2),
    (XDP, RAW, 0),
    (TIPC, DGRAM, 0),
    (BLUETOOTH, RAW, 1),
    (CAN, RAW, 1),
    (RDS, socket.SOCK_SEQPACKET, 0),
    (SMC, STREAM, 0),
]:
    if works(lambda: socket.socket(family, kind, protocol).close()):
        broken(f"family {family}, kind {kind}, protocol {protocol}")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// What is typed into a terminal is run by whoever reads from it (CVE-2017-5226), also when the
/// number of the request has bits that the kernel ignores (CVE-2019-7303).
fn types_into_no_terminal(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let ioctl = format!("IOCTL = {}", libc::SYS_ioctl);
    let script = r#"
import fcntl
TIOCSCTTY, TIOCSTI, TIOCLINUX, TIOCSETD = 0x540E, 0x5412, 0x541C, 0x5423
character = (ctypes.c_char * 4)(b"x")
host, own = os.openpty()

def types():
    os.setsid()
    fcntl.ioctl(own, TIOCSCTTY, 0)
    for request in [TIOCSTI, TIOCSTI | 1 << 32, TIOCLINUX, TIOCSETD, TIOCSETD | 7 << 33]:
        if call(IOCTL, own, request, ctypes.addressof(character)) != -errno.EPERM:
            return 0
    return 1

if in_child(types) == 0:
    broken("a request was not refused")
held()
"#;
    Room::new(backend)?.attack(&format!("{ioctl}\n{script}"), &[])
}

/// The numbers of calls differ, so a filter that does not look at the architecture lets others
/// through than it means to.
#[cfg(target_arch = "x86_64")]
fn reaches_nothing_by_another_architecture(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import mmap
# mov eax, 20 (getpid of i386); int 0x80; ret
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
i386 = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
if in_child(lambda: 0 if i386() == os.getpid() else 1) == 0:
    broken("i386")
X32, GETPID = 0x40000000, 39
if in_child(lambda: 0 if call(X32 | GETPID) == os.getpid() else 1) == 0:
    broken("x32")
held()
"#;
    Room::new(backend)?.attack(script, &[])
}

/// This architecture has a 32-bit sibling only where the processor has one; whether the personality
/// can be changed to it does not depend on that.
#[cfg(not(target_arch = "x86_64"))]
fn reaches_nothing_by_another_architecture(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let personality = format!("PERSONALITY = {}", libc::SYS_personality);
    let script = r#"
PER_LINUX32 = 8
if in_child(lambda: 0 if call(PERSONALITY, PER_LINUX32) >= 0 else 1) == 0:
    broken("personality")
held()
"#;
    Room::new(backend)?.attack(&format!("{personality}\n{script}"), &[])
}
