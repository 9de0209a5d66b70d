//! System calls are served by another kernel, in user space.

use bulkhead_backends::Backend;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![Bites is_not_served_by_the_hosts_kernel, Bites reaches_no_news_of_the_hosts_kernel];

fn is_not_served_by_the_hosts_kernel(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let version = uname.version().to_string_lossy().into_owned();
    let script = r"
uname = os.uname()
if args[0] in (uname.release, open('/proc/version').read().split()[2]):
    broken(uname.release)
if args[1] == uname.version:
    broken(uname.version)
held()
";
    Room::new(backend)?.attack(script, &[&release, &version])
}

/// What the host's kernel does is the same for all whom it serves.
fn reaches_no_news_of_the_hosts_kernel(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let began = std::fs::read_to_string("/proc/stat")?;
    let began = began.lines().find(|it| it.starts_with("btime")).unwrap_or_default();
    let script = r"
def read(path):
    try:
        return open(path).read()
    except OSError:
        return ''

if args[0] and args[0] in read('/proc/sys/kernel/random/boot_id'):
    broken('boot_id')
if args[1] and args[1] in read('/proc/stat').splitlines():
    broken(args[1])
held()
";
    Room::new(backend)?.attack(script, &[boot.trim(), began])
}
