//! The number of files that one process can have open has a ceiling.

use bulkhead_backends::Backend;
use libtest_mimic::Failed;

use crate::{
    attack::{Attack, Verdict, attacks},
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] =
    attacks![Bites opens_no_more_files_than_allowed, Bites allows_itself_no_more];

fn room(backend: &dyn Backend) -> Result<Room<'_>, Failed> {
    let mut room = Room::new(backend)?;
    room.spec.limits.files = Some(64);
    Ok(room)
}

const OPEN: &str = r#"
count = 0
while count < 200 and works(os.open, "/dev/null", os.O_RDONLY):
    count += 1
if count > 64:
    broken(f"{count} open files")
held()
"#;

fn opens_no_more_files_than_allowed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    room(backend)?.attack(OPEN, &[])
}

/// A soft limit can be raised by anybody.
fn allows_itself_no_more(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let raise = r"
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
works(resource.setrlimit, resource.RLIMIT_NOFILE, (hard, hard))
works(resource.setrlimit, resource.RLIMIT_NOFILE, (4096, 4096))
";
    room(backend)?.attack(&format!("{raise}{OPEN}"), &[])
}
