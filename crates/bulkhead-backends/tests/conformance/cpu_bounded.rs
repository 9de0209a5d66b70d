//! The rate at which processors are used has a ceiling.

use bulkhead_backends::Backend;
use bulkhead_spec::Cpus;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites uses_no_more_than_its_share,
    BitesAsRoot takes_no_precedence,
];

fn room(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    let fifth: Cpus = "0.2".parse()?;
    room.spec.limits.cpus = Some(fifth);
    Ok(room)
}

/// Four busy processes go on until they have used 0.8 seconds of processor time together, or 2
/// seconds have passed, in which they may use 0.4. Even a busy machine gives more than that to who
/// has no limit.
fn uses_no_more_than_its_share(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import time
end = time.monotonic() + 2
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        while time.monotonic() < end and time.process_time() < 0.2:
            pass
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
used = os.times()
used = used.children_user + used.children_system
if used > 0.6:
    broken(f"used {used:.2f} seconds")
held()
"#;
    room(backend)?.attack(script, &[])
}

fn takes_no_precedence(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
real_time = os.sched_param(1)
for policy in [os.SCHED_FIFO, os.SCHED_RR]:
    if in_child(lambda: 0 if works(os.sched_setscheduler, 0, policy, real_time) else 1) == 0:
        broken("real time")
if in_child(lambda: 0 if works(os.nice, -1) else 1) == 0:
    broken("nicer than others")
held()
"#;
    room(backend)?.attack(script, &[])
}
