//! Who a sandbox is on the host.

use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use bulkhead_linux::identity::{Claim, Opener, Translation};

/// Waits until the next claim gets `id`: a child that another test is just starting has a copy of
/// the lock until it executes its program.
fn assert_becomes_free(file: &Path, id: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Claim::take(file, 7).unwrap().id != id {
        assert!(Instant::now() < deadline, "{id} is not free");
        thread::yield_now();
    }
}

#[test]
fn two_holders_have_two_ids_and_a_dropped_one_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    let first = Claim::take(&file, 7).unwrap();
    let second = Claim::take(&file, 7).unwrap();
    let third = Claim::take(&file, 7).unwrap();
    assert_eq!([first.id, second.id, third.id], [200_007, 200_008, 200_009]);
    drop(second);
    assert_becomes_free(&file, 200_008);
    drop(first);
    assert_becomes_free(&file, 200_007);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn every_seed_leads_into_the_range() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    let claims = [0, 1, 59_998, 59_999, 59_999, 60_000, u32::MAX]
        .map(|seed| Claim::take(&file, seed).unwrap());
    // The last is followed by the first that is free.
    let expected = [200_000, 200_001, 259_998, 259_999, 200_002, 200_003, 247_295];
    assert_eq!(claims.map(|it| it.id), expected);
}

#[test]
fn a_claim_follows_no_link() {
    let directory = tempfile::tempdir().unwrap();
    let (target, link) = (directory.path().join("target"), directory.path().join("users"));
    fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let error = Claim::take(&link, 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

/// The maps of a user namespace, read by a process in it.
fn maps(namespace: &OwnedFd) -> String {
    let namespace = namespace.try_clone().unwrap();
    #[expect(clippy::disallowed_methods, reason = "it looks at a namespace, outside a sandbox")]
    let mut command = Command::new("/bin/cat");
    command.args(["/proc/self/uid_map", "/proc/self/gid_map"]);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(move || enter(&namespace)) };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .flat_map(|it| [it.split_whitespace().collect::<Vec<_>>().join(" "), "\n".into()])
        .collect()
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    // SAFETY: it takes two numbers, and concerns this process alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn a_translation_maps_one_owner_and_nobody_else() {
    let made = Translation::make((0, 42), 200_123, Opener::Themselves);
    if rustix::process::geteuid().is_root() {
        assert_eq!(maps(made.unwrap().namespace()), "0 200123 1\n42 200123 1\n");
    } else {
        // Only root may name users that are not itself.
        assert_eq!(made.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}

/// What a file server of root makes belongs to nobody until it is given away.
#[test]
fn root_may_open_what_is_translated_as_nobody() {
    let made = Translation::make((0, 65534), 200_123, Opener::Root);
    if rustix::process::geteuid().is_root() {
        let expected = "0 200123 1\n65534 0 1\n65534 200123 1\n65533 0 1\n";
        assert_eq!(maps(made.unwrap().namespace()), expected);
    } else {
        assert_eq!(made.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
