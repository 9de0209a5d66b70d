//! Descriptors that the runtime watches.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches `fd`, which is ours alone and stays open until the watching ends, for `interest`: each
/// time that something else can be done with it would wake us for nothing.
#[expect(
    deprecated,
    reason = "its successor is unsafe because some types may close their descriptor early; an \
              OwnedFd cannot"
)]
pub(crate) fn watch(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}
