//! The parent's part in a birth.

mod trees;

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

use bulkhead_linux::{
    birth::{By, Embryo, Expected, Map, Newborn},
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
    frame::Frame,
    lower::{self, Line, Unfinished},
    program::Program,
    shape::Shape,
    survey::{House, Survey},
};
use crate::{
    BackendError, Doors,
    doors::has as has_doors,
    identity::{INSIDE, Identity},
};

/// The most descriptors that go to the child at once: its trees. It has fewer ways into cgroups.
const MOST: usize = Trees::MOST;

/// A child that is being born.
#[derive(Debug)]
pub(super) struct Birth {
    expected: Expected,
    guest: Program,
    /// On which the child is told to go on.
    orders: OwnedFd,
    child: Ends,
    /// The child's own, which it has copies of once it is born.
    theirs: [OwnedFd; 2],
    trees: Trees,
    house: Arc<House>,
    tree: Unfinished,
}

/// The child's own descriptors, by their numbers in its table.
#[derive(Clone, Copy, Debug)]
struct Ends {
    orders: RawFd,
    control: RawFd,
}

/// What a birth takes.
pub(super) struct Parts {
    /// Who bears the child.
    pub(super) by: By,
    /// What it becomes.
    pub(super) guest: Program,
    /// Its end of the stream to us.
    pub(super) control: OwnedFd,
    /// Who it is.
    pub(super) identity: Identity,
}

impl Birth {
    /// Has the child made, and lets it do all that can be done without a plan.
    pub(super) fn begin(
        native: &Native,
        shape: Shape,
        cgroup: Option<&Cgroup>,
        Parts { by, guest, control, identity }: Parts,
    ) -> Result<Self, BackendError> {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let (orders, theirs) = pair.map_err(|it| built("make a pair of sockets")(it.into()))?;
        let child = Ends { orders: theirs.as_raw_fd(), control: control.as_raw_fd() };
        let map = match identity {
            Identity::Mapped { outside } => {
                Some(Map { inside: INSIDE, outside, orders: child.orders })
            }
            Identity::Own { .. } => None,
        };
        let mut trees = Trees::of(identity);
        let first = lower::first(&identity, guest.line());
        let steps = realize(first, child, &mut trees, None)?;
        let embryo = Embryo {
            steps,
            guest: guest.number(),
            keep: vec![child.orders, child.control],
            cgroup: cgroup.and_then(|it| it.entry().v2),
            map,
        };
        let expected = embryo.expect(by).map_err(|it| unmade("have the child made", it))?;
        let house = native.house(shape.root);
        let (mut tree, frame) = native.second(shape, &house);
        let lines = std::mem::take(&mut tree.lines);
        let second = realize(lines, child, &mut trees, frame.as_ref())?;
        expected.instruct(second).map_err(built("give the child its list"))?;
        go(&orders, &borrowed(trees.prepare(None)?));
        let theirs = [theirs, control];
        Ok(Self { expected, guest, orders, child, theirs, trees, house, tree })
    }

    /// Gives the child the rest of its list.
    pub(super) fn conclude(
        self,
        plan: &Plan,
        survey: &Survey,
    ) -> Result<Concluded, BackendError> {
        let Self { expected, guest, orders, child, theirs, mut trees, house, tree } = self;
        let mut rest = realize(tree.rest(plan, &house, survey), child, &mut trees, None)?;
        rest.push(Step::Descriptors { control: child.control });
        if let Some(first) = rest.iter().position(|it| matches!(it, Step::Attach { .. })) {
            // They come with a word of their own.
            rest.insert(first, Step::Receive { orders: child.orders });
        }
        expected.instruct(rest).map_err(built("give the child its list"))?;
        let mut newborn = expected.born().map_err(|it| unmade(&it.action, it.source))?;
        drop(theirs);
        if has_doors(plan) {
            // They are opened on loopback.
            newborn.switch_loopback_on().map_err(built("switch loopback on"))?;
        }
        go(&orders, &[]);
        if !trees.is_empty() {
            // While the child does what comes before them.
            go(&orders, &borrowed(trees.prepare(Some(newborn.pid()))?));
        }
        Ok(Concluded { newborn, guest, orders, trees })
    }
}

/// Why there are no namespaces.
pub(super) fn unmade(action: &str, source: io::Error) -> BackendError {
    let hint = "run `bulkhead doctor` to see what this host lacks";
    BackendError::Build { action: action.to_owned(), source, hint: Some(hint.to_owned()) }
}

/// A child that has all of its list, and waits at its end for what it is to be.
#[derive(Debug)]
pub(super) struct Concluded {
    newborn: Newborn,
    guest: Program,
    orders: OwnedFd,
    trees: Trees,
}

/// A child that becomes the guest.
pub(super) struct Finished {
    pub(super) newborn: Newborn,
    /// The doors that it has opened.
    pub(super) doors: Option<Doors>,
    /// On which the base comes, when somebody wants it.
    pub(super) orders: OwnedFd,
    pub(super) spent: Spent,
}

/// What a birth took, to be let go of when nobody waits for it.
pub(super) type Spent = (Option<Arc<OwnedFd>>, Trees);

impl Concluded {
    /// Lets the child enter the cgroups and become the guest; takes over the doors that it opens.
    pub(super) fn finish(
        mut self,
        plan: &Plan,
        cgroup: Option<&Cgroup>,
    ) -> Result<Finished, BackendError> {
        let sealed = self.guest.sealed().map_err(built("seal the guest"))?;
        go(&self.orders, &cgroup.map(|it| it.entry().tasks).unwrap_or_default());
        // While the child becomes the guest.
        self.newborn.switch_loopback_on().map_err(built("switch loopback on"))?;
        let doors = doors::take(plan, self.orders.as_fd(), self.newborn.pidfd())?;
        let Self { newborn, orders, trees, guest: _ } = self;
        Ok(Finished { newborn, doors, orders, spent: (sealed, trees) })
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

fn borrowed(all: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    all.iter().map(AsFd::as_fd).collect()
}

/// Fills in what only this run knows: descriptors and prepared trees.
fn realize(
    lines: Vec<Line>,
    child: Ends,
    trees: &mut Trees,
    frame: Option<&Frame>,
) -> Result<Vec<Step>, BackendError> {
    // One more each for what is put between and at the end.
    let mut steps = Vec::with_capacity(lines.len() + 2);
    for line in lines {
        steps.push(match line {
            Line::Do(step) => step,
            Line::Join => Step::Join { orders: child.orders },
            Line::Receive => Step::Receive { orders: child.orders },
            Line::Hand => Step::Hand { to: child.orders },
            Line::Doors(doors) => Step::Doors { doors: doors.into(), to: child.orders },
            Line::Show { share, attributes, target } => {
                trees.show(share, attributes, target)?
            }
            Line::Frame { part, attributes, target } => {
                let frame = frame.ok_or_else(|| {
                    built("show what every sandbox has")(io::Error::other("nothing was laid"))
                })?;
                trees.show_own(&frame.part(part), attributes, target)
            }
        });
    }
    Ok(steps)
}
