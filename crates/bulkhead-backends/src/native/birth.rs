//! The parent's part in a birth.

mod trees;

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
};

use bulkhead_linux::{
    birth::{Embryo, Newborn, map_line},
    cgroup::Cgroup,
    memfd::Unsealed,
    steps::Step,
};
use bulkhead_policy::Plan;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, sendmsg, socketpair,
};

use self::trees::Trees;
use super::{
    create::built,
    lower::{self, Line},
};
use crate::{
    BackendError,
    guest::GUEST,
    identity::{INSIDE, Identity},
};

/// A child that is being born.
pub(super) struct Birth {
    newborn: Newborn,
    guest: Unsealed,
    /// On which the child is told to go on.
    orders: OwnedFd,
    child: Ends,
    identity: Identity,
}

/// The child's own descriptors, by their numbers in its table.
#[derive(Clone, Copy)]
struct Ends {
    orders: RawFd,
    control: RawFd,
}

impl Birth {
    /// Makes the child and lets it begin.
    pub(super) fn begin(
        plan: &Plan,
        identity: Identity,
        cgroup: Option<&Cgroup>,
        control: OwnedFd,
    ) -> Result<Self, BackendError> {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (orders, theirs) = pair.map_err(|it| built("make a pair of sockets")(it.into()))?;
        let child = Ends { orders: theirs.as_raw_fd(), control: control.as_raw_fd() };
        let mut steps =
            realize(lower::first(plan, &identity), child, &mut Trees::new(identity))?;
        let entry = cgroup.map(Cgroup::entry);
        let tasks = entry.iter().flat_map(|it| it.tasks.iter());
        for (at, file) in tasks.enumerate() {
            steps.insert(1 + at, Step::Tasks { file: file.as_raw_fd() });
        }
        steps.insert(1, Step::Close { file: orders.as_raw_fd() });
        let guest = Unsealed::create().map_err(built("make a file in memory"))?;
        let embryo = Embryo {
            steps,
            guest: guest.file().as_raw_fd(),
            cgroup: entry.as_ref().and_then(|it| it.v2),
        };
        let newborn = embryo.bear().map_err(|source| BackendError::Build {
            action: "make new namespaces".to_owned(),
            source,
            hint: Some("run `bulkhead doctor` to see what this host lacks".to_owned()),
        })?;
        drop((theirs, control));
        if let Identity::Mapped { outside } = identity {
            map(&newborn, outside).map_err(built("map the sandbox's user"))?;
            go(&orders, &[]);
        }
        Ok(Self { newborn, guest, orders, child, identity })
    }

    /// The sockets that the child has opened in its network, in the order of its doors; none if it
    /// has failed.
    pub(super) fn doors(&self) -> Result<Vec<OwnedFd>, BackendError> {
        bulkhead_linux::doors::receive(self.orders.as_fd(), self.newborn.pidfd())
            .map_err(built("take over the sandbox's doors"))
    }

    /// Gives the child the rest of its list, and the program that it becomes.
    pub(super) fn finish(self, lines: Vec<Line>) -> Result<Newborn, BackendError> {
        let mut trees = Trees::new(self.identity);
        let mut rest = realize(lines, self.child, &mut trees)?;
        rest.push(Step::Descriptors { control: self.child.control });
        self.newborn.instruct(rest).map_err(built("give the child its list"))?;
        go(&self.orders, trees.prepared());
        let sealed = self.guest.seal(GUEST).map_err(built("seal the guest"))?;
        go(&self.orders, &[]);
        drop(sealed);
        Ok(self.newborn)
    }
}

/// Lets the child go on, with the trees that it needs.
///
/// One that has failed is not there to listen; why it failed is found out by its silence.
fn go(orders: &OwnedFd, trees: &[OwnedFd]) {
    let trees: Vec<BorrowedFd<'_>> = trees.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Trees::MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if trees.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&trees)) {
        let byte = [IoSlice::new(b".")];
        sendmsg(orders, &byte, &mut ancillary, SendFlags::NOSIGNAL).unwrap_or_default();
    }
}

fn map(newborn: &Newborn, outside: u32) -> io::Result<()> {
    let pid = newborn.pid().as_raw_nonzero();
    let line = map_line(INSIDE, outside);
    std::fs::write(format!("/proc/{pid}/uid_map"), line.to_bytes())?;
    std::fs::write(format!("/proc/{pid}/gid_map"), line.to_bytes())
}

/// Fills in what only this run knows: descriptors and prepared trees.
fn realize(
    lines: Vec<Line>,
    child: Ends,
    trees: &mut Trees,
) -> Result<Vec<Step>, BackendError> {
    let step = |line| {
        Ok(match line {
            Line::Do(step) => step,
            Line::Await => Step::Await { orders: child.orders },
            Line::Receive => Step::Receive { orders: child.orders },
            Line::Doors(doors) => Step::Doors { doors: doors.into(), to: child.orders },
            Line::Show { share, attributes, target } => {
                trees.show(&share, attributes, target)?
            }
        })
    };
    lines.into_iter().map(step).collect()
}
