//! Memory has a ceiling, swap included.
//!
//! Every attack takes some 200 MiB where 64 are allowed: enough to be stopped, and harmless where
//! nobody stops it.

use bulkhead_backends::Backend;
use bulkhead_spec::{Bytes, Ending};
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites takes_no_more_memory_than_allowed,
    Bites takes_no_more_in_files_without_a_name,
    Bites takes_no_more_in_files_in_memory,
    Bites takes_no_more_with_many_processes,
];

const LIMIT: Bytes = Bytes(64 << 20);
const OUT_OF_MEMORY: Ending = Ending::OutOfMemory { limit: Some(LIMIT) };

fn room(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.limits.memory = Some(LIMIT);
    Ok(room)
}

/// A program that gets all that it wants breaks the promise; one that does not is killed, and it
/// is said why.
fn greedy(backend: &dyn Backend, script: &str) -> Result<Verdict, Failed> {
    let said = room(backend)?.says(script, &[])?;
    if said.stdout.contains("got it") {
        return Ok(Verdict::Broken("the program got 200 MiB".to_owned()));
    }
    if said.ending == OUT_OF_MEMORY {
        return Ok(Verdict::Held);
    }
    Err(format!("it was not said that memory ran out: {said}").into())
}

fn takes_no_more_memory_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    greedy(backend, "held = b'x' * (200 << 20)\nsay('got it')")
}

fn takes_no_more_in_files_without_a_name(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
file = os.memfd_create("balloon")
for _ in range(200):
    os.write(file, b"x" * (1 << 20))
say("got it")
"#;
    greedy(backend, script)
}

fn takes_no_more_in_files_in_memory(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
for _ in range(200):
    os.write(file, b"x" * (1 << 20))
say("got it")
"#;
    greedy(backend, script)
}

/// Each of them is within the limit.
fn takes_no_more_with_many_processes(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r#"
children = []
for _ in range(10):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        held = b"x" * (20 << 20)
        os.write(tell, b".")
        signal.pause()
    os.close(tell)
    os.read(ready, 1)
    children.append(child)
alive = sum(1 for it in children if os.waitpid(it, os.WNOHANG) == (0, 0))
for child in children:
    works(os.kill, child, signal.SIGKILL)
if alive > 3:
    broken(f"{alive} processes have 20 MiB each")
held()
"#;
    // Where the kernel ends all of them together, this program is among them.
    let said = room(backend)?.says(script, &[])?;
    if said.ending == OUT_OF_MEMORY { Ok(Verdict::Held) } else { said.verdict() }
}
