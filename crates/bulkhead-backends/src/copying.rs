//! A process that copies files as the user of a sandbox: our own guest in another role.
//!
//! What it copies was written by programs that are not trusted, so it has their rights over it and no
//! others (see [`bulkhead_guest::layer`]).

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    process::Stdio,
};

use bulkhead_guest::layer::{CopyAnswer, CopyOrder, answer, order};
use bulkhead_linux::memfd::Unsealed;
use rustix::{
    fs::OFlags,
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair},
};
use tokio::process::Command;

use crate::{BackendError, guest::GUEST};

/// How a directory is opened that is to be copied, or copied to.
pub(crate) const DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Does what `wanted` says with these descriptors: the way in, the base, the layer. Tells bytes and
/// files.
///
/// # Cancellation
/// Leaves a part of the copy.
pub(crate) async fn copy(
    wanted: &CopyOrder,
    with: [BorrowedFd<'_>; 3],
) -> Result<(u64, u64), BackendError> {
    let failed = |source| BackendError::System { action: "copy the disk", source };
    let (ours, mut copier) = begin(wanted, with).map_err(failed)?;
    copier.wait().await.map_err(failed)?;
    let mut text = vec![0; 64 << 10];
    let received = rustix::net::recv(&ours, text.as_mut_slice(), RecvFlags::DONTWAIT);
    let (length, _) = received.map_err(|errno| failed(errno.into()))?;
    match answer(text.get(..length).unwrap_or_default()).map_err(failed)? {
        CopyAnswer::Done { bytes, files } => Ok((bytes, files)),
        CopyAnswer::Failed { action, errno } => Err(BackendError::Build {
            action,
            source: io::Error::from_raw_os_error(errno),
            hint: None,
        }),
    }
}

/// Starts the copier and gives it its order.
#[expect(
    clippy::disallowed_methods,
    reason = "this is our own guest in another role, not a program of a user"
)]
fn begin(
    wanted: &CopyOrder,
    with: [BorrowedFd<'_>; 3],
) -> io::Result<(OwnedFd, tokio::process::Child)> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let program = Unsealed::create()?.seal(GUEST)?;
    let copier = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg("--copy")
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    order(ours.as_fd(), wanted, with)?;
    Ok((ours, copier))
}
