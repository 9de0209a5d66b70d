//! The inner walls, seen from behind them.

use std::fs;

use bulkhead_linux::{
    seccomp::{Profile, filter},
    walls::Walls,
};
use rustix::process::{DumpableBehavior, dumpable_behavior};
use rustix::thread::capabilities_secure_bits;

use super::launch::shell;
use super::role::play;

/// Walls behind which only `writable` can be changed.
pub(super) fn walls(writable: &[&str]) -> Walls {
    Walls {
        writable: writable.iter().map(|it| it.as_bytes().to_vec()).collect(),
        filter: filter(Profile::Standard),
        processes: Some(50),
        files: Some(64),
    }
}

/// What the kernel keeps about a process that has to do with walls.
const KEPT: [&str; 7] =
    ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"];

/// What is lowered.
const LIMITS: [&str; 5] = [
    "Max core file size",
    "Max processes",
    "Max open files",
    "Max locked memory",
    "Max realtime priority",
];

/// The lines of `text` that begin with one of the words, with single blanks.
fn lines(text: &str, words: &[&str]) -> String {
    let wanted = text.lines().filter(|line| words.iter().any(|word| line.starts_with(word)));
    wanted
        .flat_map(|line| [line.split_whitespace().collect::<Vec<_>>().join(" "), "\n".into()])
        .collect()
}

/// Raises the walls, and reports how this process and one that it launches stand.
pub(super) fn behind_walls() -> String {
    walls(&[]).raise().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let dumpable = dumpable_behavior().unwrap() == DumpableBehavior::Dumpable;
    let bits = capabilities_secure_bits().unwrap().bits();
    let launched = shell("cat /proc/self/status");
    let own = format!("{}{}", lines(&status, &KEPT), lines(&limits, &LIMITS));
    format!(
        "{own}dumpable: {dumpable}\nsecurebits: {bits:#x}\nlaunched\n{}",
        lines(&launched, &KEPT)
    )
}

#[test]
fn behind_the_walls_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let stands = "CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapBnd: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1
Seccomp: 2
";
    let limits = "Max core file size 0 0 bytes
Max processes 50 50 processes
Max open files 64 64 files
Max locked memory 65536 65536 bytes
Max realtime priority 0 0
";
    // Every bit and its lock, but for that which keeps capabilities: only its lock.
    let bits = "securebits: 0xef";
    let expected = format!("{stands}{limits}dumpable: false\n{bits}\nlaunched\n{stands}");
    assert_eq!(play("behind walls", directory.path()), expected);
}
