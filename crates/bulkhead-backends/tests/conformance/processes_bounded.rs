//! The number of processes and threads has a ceiling.
//!
//! Every attack makes 200 where 32 are allowed: enough to be stopped, and harmless where nobody
//! stops it.

use bulkhead_backends::Backend;
use bulkhead_spec::Limits;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites makes_no_more_processes_than_allowed,
    Bites makes_no_more_threads_than_allowed,
    Bites makes_no_more_by_leaving_its_session,
    CannotBeBuilt the_dead_are_not_counted,
    CannotBeBuilt makes_no_more_than_it_was_left_while_it_lived,
];

fn room(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.limits.pids = Some(32);
    Ok(room)
}

/// How many processes there can be at one time, up to `enough`; none of them is left.
const MOST: &str = r"
def most(enough):
    children = []
    def one():
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            signal.pause()
        children.append(child)
    while len(children) < enough and works(one):
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)
";

fn makes_no_more_processes_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
made = most(200)
if made > 32:
    broken(f"{made} processes")
held()
"#;
    room(backend)?.attack(&format!("{MOST}{script}"), &[])
}

fn makes_no_more_threads_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
import threading
enough = threading.Event()
count = 0
threading.stack_size(64 * 1024)
while count < 200:
    try:
        threading.Thread(target=enough.wait, args=(20,), daemon=True).start()
    except RuntimeError:
        break
    count += 1
enough.set()
if count > 32:
    broken(f"{count} threads")
held()
"#;
    room(backend)?.attack(script, &[])
}

/// A limit that is lowered and raised again while the sandbox lives.
fn makes_no_more_than_it_was_left_while_it_lived(
    backend: &dyn Backend,
) -> Result<Verdict, Failed> {
    let script = r#"
import time
def until(name):
    print(name, flush=True)
    while not os.path.exists(name):
        time.sleep(0.01)

until("lowered")
low = most(100)
until("raised")
high = most(100)
if low > 32:
    broken(f"{low} processes where 32 were allowed")
if high < 100:
    broken(f"{high} processes where 200 were allowed")
held()
"#;
    let mut room = Room::new(backend)?;
    room.spec.limits.pids = Some(64);
    let mut inside = room.enter(&format!("{MOST}{script}"), &[])?;
    for (word, pids) in [("lowered", 32), ("raised", 200)] {
        inside.hear(word)?;
        if !inside.bound(&Limits { pids: Some(pids), ..Limits::default() }) {
            // Where no cgroup counts them, a limit stays what it was; without walls there is none.
            let refused =
                if room.is_open() { Err("nobody bounds it".into()) } else { Ok(Verdict::Held) };
            return refused;
        }
        std::fs::write(room.workspace().join(word), "")?;
    }
    let ending = inside.wait()?;
    inside.destroy(ending)?.verdict()
}

/// Orphans in sessions of their own are still processes of the sandbox.
fn makes_no_more_by_leaving_its_session(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
done, end = os.pipe()
count, say_count = os.pipe()
def one():
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.close(end)
                signal.alarm(20)
                os.write(say_count, b".")
                os.read(done, 1)
        finally:
            os._exit(0)
    os.waitpid(child, 0)

for _ in range(200):
    if not works(one):
        break
os.set_blocking(count, False)
made = len(os.read(count, 4096))
os.close(end)
if made > 32:
    broken(f"{made} orphans")
held()
"#;
    room(backend)?.attack(script, &[])
}

/// Orphans that end must be waited for by PID 1, or no more processes can be made. On a host
/// without walls that is the host's own, so there is nothing to try.
fn the_dead_are_not_counted(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
def orphan():
    child = os.fork()
    if child == 0:
        os._exit(0 if works(os.fork) else 1)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError("no process for the orphan")

import time
for count in range(300):
    end = time.monotonic() + 5
    # Those that have ended may not yet have been waited for.
    while not works(orphan):
        if time.monotonic() > end:
            broken(f"after {count} orphans there are no more processes")
held()
"#;
    room(backend)?.attack(script, &[])
}
