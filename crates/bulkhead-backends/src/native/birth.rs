//! The parent's part in a birth.

mod trees;

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

use bulkhead_linux::{
    birth::{Embryo, Newborn, map_line},
    cgroup::Cgroup,
    steps::Step,
};
use bulkhead_policy::Plan;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, sendmsg, socketpair,
};

use self::trees::Trees;
use super::{
    Native,
    create::built,
    doors,
    lower::{self, Line, Unfinished},
    program::Program,
    shape::Shape,
    survey::{House, Survey},
};
use crate::{
    BackendError, Doors,
    identity::{self, INSIDE, Identity, Owner},
};

/// The most descriptors that go to the child at once: its trees. It has fewer ways into cgroups.
const MOST: usize = Trees::MOST;

/// A child that is being born.
#[derive(Debug)]
pub(super) struct Birth {
    newborn: Newborn,
    guest: Program,
    /// On which the child is told to go on.
    orders: OwnedFd,
    child: Ends,
    identity: Identity,
    house: Arc<House>,
    tree: Unfinished,
}

/// The child's own descriptors, by their numbers in its table.
#[derive(Clone, Copy, Debug)]
struct Ends {
    orders: RawFd,
    control: RawFd,
}

impl Birth {
    /// Makes the child, which becomes the guest and has the stream to it, and lets it do all that can
    /// be done without a plan. Who it is going to be is settled when it is there, not before.
    pub(super) fn begin(
        native: &Native,
        shape: Shape,
        cgroup: Option<&Cgroup>,
        (guest, control): (Program, OwnedFd),
    ) -> Result<(Self, Owner), BackendError> {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (orders, theirs) = pair.map_err(|it| built("make a pair of sockets")(it.into()))?;
        let child = Ends { orders: theirs.as_raw_fd(), control: control.as_raw_fd() };
        let expected = identity::expected();
        let mut none = Trees::of(expected);
        let mut steps =
            realize(lower::first(shape, &expected, guest.line()), child, &mut none)?;
        steps.insert(1, Step::Close { file: orders.as_raw_fd() });
        let embryo = Embryo {
            steps,
            guest: guest.number(),
            cgroup: cgroup.and_then(|it| it.entry().v2),
        };
        let newborn = embryo.bear().map_err(|source| BackendError::Build {
            action: "make new namespaces".to_owned(),
            source,
            hint: Some("run `bulkhead doctor` to see what this host lacks".to_owned()),
        })?;
        drop((theirs, control));
        let owner =
            Owner::take(&native.runtime).map_err(built("take a user id for the sandbox"))?;
        let identity = owner.identity;
        if let Identity::Mapped { outside } = identity {
            map(&newborn, outside).map_err(built("map the sandbox's user"))?;
            go(&orders, &[]);
        }
        let house = native.house(shape.root);
        let mut tree = lower::second(shape, &house);
        let second = realize(std::mem::take(&mut tree.lines), child, &mut none)?;
        newborn.instruct(second).map_err(built("give the child its list"))?;
        go(&orders, &[]);
        Ok((Self { newborn, guest, orders, child, identity, house, tree }, owner))
    }

    /// Gives the child the rest of its list; what the parent does then decides who has a processor
    /// to spare.
    pub(super) fn conclude(
        self,
        plan: &Plan,
        survey: &Survey,
        then: Then,
    ) -> Result<Concluded, BackendError> {
        let Self { newborn, guest, orders, child, identity, house, tree } = self;
        let mut trees = Trees::of(identity);
        let rest = realize(tree.rest(plan, &house, survey), child, &mut trees)?;
        // Who makes the network has waited for the child so far.
        let network = (then == Then::Wait).then_some(Step::NetworkBeside);
        let mut rest: Vec<Step> = network.into_iter().chain(rest).collect();
        rest.push(Step::Descriptors { control: child.control });
        newborn.instruct(rest).map_err(built("give the child its list"))?;
        let descriptors: Vec<BorrowedFd<'_>> =
            trees.prepared().iter().map(AsFd::as_fd).collect();
        go(&orders, &descriptors);
        Ok(Concluded { newborn, guest, orders, trees })
    }
}

/// What the parent does while the child does the last of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It makes cgroups, for as long as that takes.
    Work,
    /// Nothing much.
    Wait,
}

/// A child that has all of its list, and waits at its end for what it is to be.
#[derive(Debug)]
pub(super) struct Concluded {
    newborn: Newborn,
    guest: Program,
    orders: OwnedFd,
    /// What they were prepared with has time to end meanwhile.
    trees: Trees,
}

impl Concluded {
    /// Lets the child enter the cgroups and become the guest; takes over the doors that it opens. The
    /// base comes on the stream that is returned, when somebody wants it.
    pub(super) fn finish(
        self,
        plan: &Plan,
        cgroup: Option<&Cgroup>,
    ) -> Result<(Newborn, Option<Doors>, OwnedFd), BackendError> {
        let sealed = self.guest.sealed().map_err(built("seal the guest"))?;
        go(&self.orders, &cgroup.map(|it| it.entry().tasks).unwrap_or_default());
        drop((sealed, self.trees));
        let doors = doors::take(plan, self.orders.as_fd(), self.newborn.pidfd())?;
        Ok((self.newborn, doors, self.orders))
    }
}

/// Lets the child go on, with the descriptors that it needs.
///
/// One that has failed is not there to listen; why it failed is found out by its silence.
fn go(orders: &OwnedFd, descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let all = SendAncillaryMessage::ScmRights(descriptors);
    if descriptors.is_empty() || ancillary.push(all) {
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
            Line::Join => Step::Join { orders: child.orders },
            Line::Receive => Step::Receive { orders: child.orders },
            Line::Hand => Step::Hand { to: child.orders },
            Line::Doors(doors) => Step::Doors { doors: doors.into(), to: child.orders },
            Line::Show { share, attributes, target } => {
                trees.show(&share, attributes, target)?
            }
        })
    };
    lines.into_iter().map(step).collect()
}
