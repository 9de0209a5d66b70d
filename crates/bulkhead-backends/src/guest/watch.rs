//! Descriptors that the runtime watches.

use std::{io, os::fd::OwnedFd};

use tokio::io::unix::AsyncFd;

/// Watches `fd`, which is ours alone and stays open until the watching ends.
#[expect(
    deprecated,
    reason = "its successor is unsafe because some types may close their descriptor early; an \
              OwnedFd cannot"
)]
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}
