//! How a run ends: the caller goes on, and what the kernel takes its time for is done behind them.
//!
//! Whoever stays behind for that ends without a parent, and the first process of the host, or of the
//! container that we are in, has to take note of it. Not everything that is made the first process of
//! a container does so, and who ends unnoticed stays in the table of processes. So one of them is
//! written down, the *witness*: if that one goes unnoticed for long, or too many have followed it
//! meanwhile, nobody stays behind any more, and callers wait.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bulkhead_backends::Remains;
use bulkhead_linux::reap;

/// How long the end of the witness may go unnoticed.
const UNNOTICED: Duration = Duration::from_secs(10);
/// How many may follow it meanwhile.
const FOLLOWERS: usize = 200;

/// What is to be removed when everything else is done.
static LEFT: Mutex<Option<Left>> = Mutex::new(None);

struct Left {
    remains: Remains,
    behind: Option<Behind>,
}

/// Leave to stay behind, and where that is written down: the number of the witness, and a dot for
/// each one that followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// As the next witness.
    Witness(PathBuf),
    /// As one more.
    Follower(PathBuf),
}

impl Behind {
    /// Whether somebody may stay behind who writes it down below `runtime`.
    pub(crate) fn allowed(runtime: &Path) -> Option<Self> {
        let note = runtime.join("behind");
        let text = fs::read_to_string(&note).unwrap_or_default();
        let witness = text.trim_end_matches('.');
        let stat = fs::read(format!("/proc/{witness}/stat")).unwrap_or_default();
        if !is_dead(&stat) {
            return Some(Self::Witness(note));
        }
        let since = started(&note).ok()?.elapsed().ok()?;
        let followers = text.len() - witness.len();
        (since < UNNOTICED && followers < FOLLOWERS).then_some(Self::Follower(note))
    }

    fn note(&self) -> io::Result<()> {
        match self {
            Self::Witness(note) => fs::write(note, std::process::id().to_string()),
            Self::Follower(note) => {
                let began = started(note)?;
                let mut file = File::options().append(true).open(note)?;
                file.write_all(b".")?;
                file.set_modified(began)
            }
        }
    }
}

/// Since when the witness is written down.
fn started(note: &Path) -> io::Result<SystemTime> {
    fs::metadata(note)?.modified()
}

/// Whether this is said of a process that has ended and is still there.
fn is_dead(stat: &[u8]) -> bool {
    // Its name is in brackets, and may have any in it.
    let after = stat.iter().rposition(|it| *it == b')');
    after.is_some_and(|at| stat.get(at + 1..).is_some_and(|it| it.starts_with(b" Z")))
}

/// Has `remains` removed when the process ends, after it if somebody may stay behind.
pub(crate) fn leave(remains: Remains, behind: Option<Behind>) {
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Left { remains, behind });
}

/// Ends this process.
pub(crate) fn end(code: u8) -> ! {
    let left = LEFT.lock().unwrap_or_else(PoisonError::into_inner).take();
    match left {
        Some(Left { remains, behind: Some(behind) }) => reap::end_leaving(code, || {
            // Whoever comes next knows nothing of us if this fails, which is no worse than before.
            behind.note().unwrap_or_default();
            drop(remains);
        }),
        Some(Left { remains, behind: None }) => drop(remains),
        None => {}
    }
    // Nothing is left to tidy up but what the kernel takes back by itself, and somebody waits.
    reap::end(code)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        process::{Child, Command},
    };

    use super::*;

    #[test]
    fn the_dead_are_told_from_the_living_whatever_their_names() {
        assert!(is_dead(b"77 (bulkhead) Z 1 77 77 0"));
        assert!(is_dead(b"77 (a) S) Z 1"));
        assert!(!is_dead(b"77 (a) Z) S 1"));
        assert!(!is_dead(b"77 (bulkhead) R 1"));
        assert!(!is_dead(b""));
    }

    /// Somebody who has ended and is not waited for.
    #[expect(clippy::disallowed_methods, reason = "any process will do")]
    fn dead() -> Child {
        let child = Command::new("true").spawn().unwrap();
        while fs::read(format!("/proc/{}/stat", child.id())).is_ok_and(|it| !is_dead(&it)) {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn nobody_stays_behind_where_nobody_takes_note_of_the_dead() {
        let runtime = tempfile::tempdir().unwrap();
        let (allowed, note) =
            (|| Behind::allowed(runtime.path()), runtime.path().join("behind"));
        assert_eq!(allowed(), Some(Behind::Witness(note.clone())));
        allowed().unwrap().note().unwrap();
        // That was us, and we live.
        assert_eq!(allowed(), Some(Behind::Witness(note.clone())));

        let mut witness = dead();
        fs::write(&note, witness.id().to_string()).unwrap();
        for _ in 0..FOLLOWERS {
            assert_eq!(allowed(), Some(Behind::Follower(note.clone())));
            allowed().unwrap().note().unwrap();
        }
        assert_eq!(allowed(), None);

        fs::write(&note, witness.id().to_string()).unwrap();
        let long_ago = SystemTime::now() - 2 * UNNOTICED;
        File::options().append(true).open(&note).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(allowed(), None);

        witness.wait().unwrap();
        assert_eq!(allowed(), Some(Behind::Witness(note)));
    }
}
