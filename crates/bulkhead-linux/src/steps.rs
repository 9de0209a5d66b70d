//! How a sandbox is built, as a list.
//!
//! A list is made by a pure function from a plan, printed by `bulkhead plan`, compared in tests,
//! and [applied](crate::birth) by a loop in a child that has new namespaces. The loop starts on the
//! host's file tree, works in a directory of its own and leaves the host's for good:
//!
//! ```text
//! /            the host's tree, until the end
//! .            the base: one sized tmpfs, holds everything that is written and then thrown away
//! ├── new      what becomes the sandbox's `/`
//! └── …        private directories, upper layers
//! ```
//!
//! Invariant: every target that is not made by the list itself is looked up below the base without
//! following a symbolic link, and every source is compared with the inode that was meant.

mod apply;

use std::{
    ffi::{CStr, CString},
    fmt,
    os::fd::RawFd,
};

use crate::{
    doors::Door,
    mounts::{Attributes, Inode},
};

pub(crate) use apply::{Trees, apply, out_of_the_way};

/// One step; paths without a leading slash are below the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the caller's session and terminal, and its real-time priority.
    Session,
    /// Wait until the parent has done its part, and enter the cgroups that it has made.
    Join {
        /// The socket on which the parent sends one byte and the `tasks` files.
        orders: RawFd,
    },
    /// Wait for the next list, and for the descriptors that it uses.
    Receive {
        /// The socket on which the parent sends one byte and the descriptors.
        orders: RawFd,
    },
    /// Say in the new user namespace who we are.
    MapSelf {
        /// The line for users.
        uid: CString,
        /// The line for groups.
        gid: CString,
    },
    /// Be this user and group, and in no other group where that can be said.
    Become {
        /// For user and group alike.
        id: u32,
        /// Whether other groups can be left.
        groups: Groups,
    },
    /// Let no mount of ours reach the host.
    Private,
    /// Mount the base and go there.
    Base {
        /// Options of its tmpfs: size and number of files.
        options: CString,
    },
    /// Give the base another size.
    Resize {
        /// Options of its tmpfs: size and number of files.
        options: CString,
    },
    /// Make a directory; it may be there.
    Dir {
        /// Which.
        path: Place,
        /// Its permissions.
        mode: u32,
    },
    /// Make a file.
    File {
        /// Which.
        path: Place,
        /// What it holds.
        content: Box<[u8]>,
    },
    /// Make a file in the place of whatever file or link is there.
    Rewrite {
        /// Which.
        path: Place,
        /// What it holds.
        content: Box<[u8]>,
    },
    /// Make a symbolic link.
    Link {
        /// Where.
        path: Place,
        /// To what.
        to: CString,
    },
    /// Show a part of the tree at another place.
    Bind {
        /// What.
        source: CString,
        /// Which inode that must be.
        expect: Option<Inode>,
        /// Where.
        target: Place,
        /// What may be done through it.
        attributes: Attributes,
    },
    /// Show something where it is already, so that it can be neither moved nor removed, and changed
    /// only as far as this says.
    Hold {
        /// What.
        target: Place,
        /// What may be done to it.
        attributes: Attributes,
    },
    /// Show a part of the tree at another place too, with the same attributes: for what nobody but
    /// the host's administrator and ourselves can swap for something else.
    Again {
        /// What.
        source: CString,
        /// Where.
        target: Place,
    },
    /// The same where the target may not be there, which is as well.
    Cover {
        /// With what.
        source: CString,
        /// What.
        target: Place,
    },
    /// Make this file the program that the child becomes: through a mount on which nobody can write,
    /// because inside it may belong to whoever the programs are (CVE-2019-5736).
    Guest {
        /// Which file.
        source: CString,
        /// Which inode that must be.
        expect: Inode,
    },
    /// Mount what the parent has prepared.
    Attach {
        /// Which of the descriptors that were received.
        tree: usize,
        /// Where.
        target: Place,
    },
    /// Show directories as one so that changes go elsewhere.
    Overlay {
        /// The directories, the topmost first.
        lower: Vec<CString>,
        /// Where changes go.
        upper: CString,
        /// Scratch space of the kernel, beside `upper`.
        work: CString,
        /// Where it is seen.
        target: Place,
    },
    /// Mount a filesystem of the kernel's own.
    Mount {
        /// Its type.
        kind: Kind,
        /// Where.
        target: Place,
    },
    /// Call the machine by another name.
    Hostname(CString),
    /// Make every address one of this network's own, open these doors in it, and send them to the
    /// parent.
    Doors {
        /// Which.
        doors: Box<[Door]>,
        /// The socket on which the parent takes them.
        to: RawFd,
    },
    /// Hand the base to the parent, who cannot reach it any more once the new root is entered.
    Hand {
        /// The socket on which the parent takes it.
        to: RawFd,
    },
    /// Restrict what is mounted at `target`.
    Restrict {
        /// Where.
        target: CString,
        /// What may still be done through it.
        attributes: Attributes,
        /// How far.
        reach: Reach,
    },
    /// Make `new` the root and let go of everything else.
    Enter,
    /// Let no program that is executed from here on bring or keep a capability. What this process
    /// holds itself it keeps until then.
    Capabilities,
    /// Keep the control stream at descriptor 3 and nothing above; empty input and output.
    Descriptors {
        /// The control stream.
        control: RawFd,
    },
}

/// A path below the base, and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path, without a leading slash.
    pub path: CString,
    /// Who made the directories on the way.
    pub way: Way,
}

/// Who made the directories on the way to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Earlier steps of the same list, in the base: there is no symbolic link on it.
    Ours,
    /// Somebody else: a symbolic link on it is an error.
    Foreign,
}

impl From<&CStr> for Place {
    /// A place is foreign unless somebody knows better.
    fn from(path: &CStr) -> Self {
        Self { path: path.to_owned(), way: Way::Foreign }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.path.to_string_lossy())
    }
}

/// How far a restriction reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The one mount.
    Alone,
    /// Also what is mounted in it at that time.
    All,
}

/// Whether the groups of the caller can be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Left: the parent is root and has mapped the sandbox's group.
    Left,
    /// Kept, as groups without a name: the kernel forbids an ordinary user to leave them.
    Kept,
}

/// A filesystem of the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The processes of the sandbox.
    Proc,
    /// Its terminals.
    Pts,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => out.write_str("start a session"),
            Self::Join { .. } => out.write_str("wait for the parent, and enter the cgroups"),
            Self::Receive { .. } => out.write_str("wait for the next list"),
            Self::MapSelf { uid, gid } => {
                write!(out, "map users `{}` and groups `{}`", text(uid), text(gid))
            }
            Self::Become { id, groups } => write!(out, "become user {id} (groups {groups:?})"),
            Self::Private => out.write_str("make all mounts private"),
            Self::Base { options } => write!(out, "mount the base ({})", text(options)),
            Self::Resize { options } => write!(out, "resize the base ({})", text(options)),
            Self::Dir { path, mode } => {
                write!(out, "make the directory `{path}` {mode:o}")
            }
            Self::File { path, content } => {
                write!(out, "make the file `{path}` ({} bytes)", content.len())
            }
            Self::Rewrite { path, content } => {
                write!(out, "put a file of {} bytes at `{path}`", content.len())
            }
            Self::Link { path, to } => write!(out, "link `{path}` to `{}`", text(to)),
            Self::Bind { source, target, attributes, .. } => {
                write!(out, "show `{}` at `{target}` {attributes:?}", text(source))
            }
            Self::Hold { target, attributes } => write!(out, "hold `{target}` {attributes:?}"),
            Self::Again { source, target } => {
                write!(out, "show `{}` at `{target}` too", text(source))
            }
            Self::Cover { source, target } => {
                write!(out, "show `{}` at `{target}` if it is there", text(source))
            }
            Self::Guest { source, .. } => write!(out, "take `{}` for the guest", text(source)),
            Self::Attach { target, .. } => {
                write!(out, "show a translated tree at `{target}`")
            }
            Self::Overlay { lower, target, .. } => {
                let lower: Vec<String> = lower.iter().map(|it| text(it)).collect();
                write!(out, "show a private copy of `{}` at `{target}`", lower.join("`, `"))
            }
            Self::Mount { kind, target } => write!(out, "mount {kind:?} at `{target}`"),
            Self::Hostname(name) => write!(out, "name the machine `{}`", text(name)),
            Self::Doors { doors, .. } => {
                write!(out, "own every address and open doors at")?;
                doors.iter().try_for_each(|door| write!(out, " {door}"))
            }
            Self::Hand { .. } => out.write_str("hand the base to the parent"),
            Self::Restrict { target, attributes, reach } => {
                write!(out, "restrict `{}` to {attributes:?} ({reach:?})", text(target))
            }
            Self::Enter => out.write_str("enter the new root and leave the host's tree"),
            Self::Capabilities => out.write_str("let no program bring capabilities"),
            Self::Descriptors { .. } => out.write_str("close all descriptors"),
        }
    }
}

fn text(path: &CStr) -> String {
    path.to_string_lossy().into_owned()
}
