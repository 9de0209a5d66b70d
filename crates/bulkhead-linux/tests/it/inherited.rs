//! A descriptor is taken once.

use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use bulkhead_linux::inherited::take;
use rustix::io::{FdFlags, fcntl_getfd};

use super::role::play;

/// Takes a descriptor, and tries to take another.
pub(super) fn take_descriptors() -> String {
    let (near, far) = rustix::pipe::pipe().unwrap();
    let number = near.into_raw_fd();
    let taken = take(number).unwrap();
    let same = taken.as_raw_fd() == number;
    let closes = fcntl_getfd(&taken).unwrap() == FdFlags::CLOEXEC;
    let again = take(far.as_raw_fd()).unwrap_err();
    format!("the same: {same}; closed by exec: {closes}; again: {again}\n")
}

#[test]
fn a_descriptor_is_taken_once() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        play("take descriptors", directory.path()),
        "the same: true; closed by exec: true; again: the descriptor was taken before\n"
    );
}
