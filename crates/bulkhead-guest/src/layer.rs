//! Copies what a sandbox has written on its private disk into a layer, or a layer to where a disk
//! begins: `bulkhead-guest --copy`.
//!
//! It is a process of its own, because it must see every file whatever its permissions say, and
//! must not be able to do more than the sandbox itself: it becomes the sandbox's user first, where
//! even a link that it would follow leads nowhere else (see [`Entry`]). It follows none.
//!
//! Invariant: files are reached by descriptors and single names. What comes out is the same tree
//! with the same holes, links, times and attributes, but for set-id bits and what only the kernel's
//! overlay wrote for itself.

mod about;
mod bytes;
mod walk;

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use bulkhead_linux::apart;
use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
    process::{Gid, Resource, Rlimit, Signal, Uid, getrlimit, setrlimit},
    thread::{
        LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space,
        move_into_thread_name_spaces, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    },
};
use serde::{Deserialize, Serialize};

/// The longest order or answer.
const LONGEST: usize = 64 << 10;

/// What is to be copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyOrder {
    /// Directories of the base, each with its name in the layer.
    pub parts: Vec<Part>,
    /// Who the sandbox's user is inside.
    pub user: u32,
    /// How to become that user.
    pub entry: Entry,
    /// What is there of the copy.
    pub place: Place,
}

/// How whoever copies becomes the user of a sandbox, with all rights over its files and none over
/// others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// By a process of it, whose users and mounts are the sandbox's own.
    Process,
    /// By a namespace in which there is no other user. The base is all that it sees of files.
    Users,
    /// By such a namespace of its own making: the sandbox's user is who orders the copy. The way in
    /// is of no use.
    Own,
}

/// What is there of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// An empty directory: every part is made.
    Empty,
    /// A directory for each part. One that is not in the base stays empty.
    Laid,
}

/// One directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Below the base.
    pub from: String,
    /// In the layer.
    pub to: String,
    /// What is in it.
    pub kind: PartKind,
}

/// What is in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartKind {
    /// Files, as the sandbox sees them.
    Plain,
    /// Changes to other directories below, as the kernel's overlay writes them down.
    Changes,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyAnswer {
    /// All of it is there.
    Done {
        /// Bytes of files, without holes.
        bytes: u64,
        /// Files and directories.
        files: u64,
    },
    /// It is not.
    Failed {
        /// What was to be done.
        action: String,
        /// What the system said.
        errno: i32,
    },
}

/// What could not be done.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) action: String,
    pub(crate) errno: Errno,
}

pub(crate) fn failed(action: &str) -> impl FnOnce(Errno) -> Failed {
    let action = action.to_owned();
    move |errno| Failed { action, errno }
}

/// Sends the order and its descriptors: the way in, the base, the layer.
pub fn order(
    socket: BorrowedFd<'_>,
    order: &CopyOrder,
    with: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let text = postcard::to_allocvec(order).map_err(io::Error::other)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if LONGEST < text.len() || !ancillary.push(SendAncillaryMessage::ScmRights(&with)) {
        return Err(Errno::MSGSIZE.into());
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reads the answer.
pub fn answer(text: &[u8]) -> io::Result<CopyAnswer> {
    postcard::from_bytes(text).map_err(io::Error::other)
}

/// Takes one order from `socket`, does it, and answers.
pub fn copy(socket: &OwnedFd) -> io::Result<()> {
    let answer = match obey(socket) {
        Ok((bytes, files)) => CopyAnswer::Done { bytes, files },
        Err(Failed { action, errno }) => {
            CopyAnswer::Failed { action, errno: errno.raw_os_error() }
        }
    };
    let text = postcard::to_allocvec(&answer).map_err(io::Error::other)?;
    rustix::net::send(socket, &text, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn obey(socket: &OwnedFd) -> Result<(u64, u64), Failed> {
    let (order, [way, base, layer]) = receive(socket).map_err(failed("take the order"))?;
    enter(&order, &way, &base).map_err(failed("enter the sandbox"))?;
    // A deep tree needs a descriptor or two for each level.
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })
        .map_err(failed("open many files"))?;
    walk::copy_all(&order, base.as_fd(), layer.as_fd())
}

fn receive(socket: &OwnedFd) -> Result<(CopyOrder, [OwnedFd; 3]), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = vec![0; LONGEST];
    let mut slices = [IoSliceMut::new(&mut text)];
    let got = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    let text = text.get(..got.bytes).unwrap_or_default();
    let order = postcard::from_bytes(text).map_err(|_| Errno::BADMSG)?;
    let files = files.try_into().map_err(|_| Errno::BADMSG)?;
    Ok((order, files))
}

/// Becomes the user of the sandbox, with all rights over its files and none over others'.
fn enter(order: &CopyOrder, way: &OwnedFd, base: &OwnedFd) -> Result<(), Errno> {
    match order.entry {
        Entry::Process => {
            let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
            move_into_thread_name_spaces(way.as_fd(), both)?;
        }
        Entry::Users => {
            move_into_link_name_space(way.as_fd(), Some(LinkNameSpaceType::User))?;
            see_only(base)?;
        }
        Entry::Own => {
            let became = apart::become_user(order.user);
            became.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))?;
            see_only(base)?;
        }
    }
    match set_thread_groups(&[]) {
        // An ordinary user cannot leave groups; they give no right inside.
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let (uid, gid) = (Uid::from_raw(order.user), Gid::from_raw(order.user));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // Only now: a change of identity forgets it. Whoever ordered this copy may be killed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

fn see_only(base: &OwnedFd) -> Result<(), Errno> {
    rustix::process::fchdir(base)?;
    rustix::process::chroot(c".")
}
