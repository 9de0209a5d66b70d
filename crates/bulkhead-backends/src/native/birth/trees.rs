//! Parts of the host's tree, prepared so that their owner appears as the sandbox's user.

use std::{
    ffi::CString,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
};

use bulkhead_linux::{
    identity::namespace_of,
    mounts::{self, Attributes},
    steps::{Place, Step},
};
use bulkhead_spec::escape_bytes;
use rustix::process::Pid;

use crate::{
    BackendError,
    identity::{INSIDE, Identity, Translations},
    native::create::built,
    workspace::share::Share,
};

/// The trees of one sandbox. To let go of them takes a while.
#[derive(Debug)]
pub(in crate::native) struct Trees {
    identity: Identity,
    wanted: Vec<(Wanted, Attributes)>,
    translations: Translations,
    /// The namespace of the sandbox itself.
    own: Option<OwnedFd>,
    prepared: Vec<OwnedFd>,
}

/// What is to be prepared.
#[derive(Debug)]
enum Wanted {
    /// Whose owner appears as the sandbox's user.
    Share(Share),
    /// As it is: ours, where only we can go.
    Own(CString),
}

impl Trees {
    /// The most that one sandbox can have: they go to the child in one message.
    pub(super) const MOST: usize = 64;

    pub(super) fn of(identity: Identity) -> Self {
        Self {
            identity,
            wanted: Vec::new(),
            translations: Translations::default(),
            own: None,
            prepared: Vec::new(),
        }
    }

    /// Whether there are any to prepare.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The step that shows `share` at `target`.
    pub(super) fn show(
        &mut self,
        share: Share,
        attributes: Attributes,
        target: Place,
    ) -> Result<Step, BackendError> {
        match self.identity {
            Identity::Own { .. } => Ok(Step::Bind {
                source: path(&share.from),
                expect: Some(share.looked.inode),
                target,
                attributes,
            }),
            Identity::Mapped { .. } => {
                if self.wanted.len() == Self::MOST {
                    return Err(refused(&share, "more than 64 things are shared"));
                }
                Ok(self.attach((Wanted::Share(share), attributes), target))
            }
        }
    }

    /// The step that shows something of ours at `target`.
    pub(super) fn show_own(
        &mut self,
        from: &Path,
        attributes: Attributes,
        target: Place,
    ) -> Step {
        let source = path(from);
        match self.identity {
            Identity::Own { .. } => Step::Bind { source, expect: None, target, attributes },
            Identity::Mapped { .. } => self.attach((Wanted::Own(source), attributes), target),
        }
    }

    fn attach(&mut self, wanted: (Wanted, Attributes), target: Place) -> Step {
        let tree = self.prepared.len() + self.wanted.len();
        self.wanted.push(wanted);
        Step::Attach { tree, target }
    }

    /// Prepares them, in the order of the steps that show them, and returns those that were not
    /// prepared before. `child` is the sandbox's first process, once it is there.
    pub(super) fn prepare(&mut self, child: Option<Pid>) -> Result<&[OwnedFd], BackendError> {
        let first = self.prepared.len();
        let owned = |(it, _): &(Wanted, _)| match it {
            Wanted::Share(share) => share.looked.owner == (INSIDE, INSIDE),
            Wanted::Own(_) => false,
        };
        if self.own.is_none() && self.wanted.iter().any(owned) {
            // A child that has failed has none; why it failed is found out by its silence.
            self.own = child.and_then(|it| namespace_of(it).ok());
        }
        if let Identity::Mapped { outside } = self.identity {
            for (wanted, attributes) in std::mem::take(&mut self.wanted) {
                let prepared = match wanted {
                    Wanted::Share(share) => self.translate(&share, attributes, outside)?,
                    Wanted::Own(path) => mounts::restricted(&path, attributes)
                        .map_err(built("show what every sandbox has"))?,
                };
                self.prepared.push(prepared);
            }
        }
        Ok(self.prepared.get(first..).unwrap_or_default())
    }

    fn translate(
        &mut self,
        share: &Share,
        attributes: Attributes,
        outside: u32,
    ) -> Result<OwnedFd, BackendError> {
        let owner = share.looked.owner;
        let owners = match self.own.as_ref().filter(|_| owner == (INSIDE, INSIDE)) {
            Some(own) => own,
            None => self
                .translations
                .of(owner, outside)
                .map_err(built("make a namespace that translates owners"))?,
        };
        mounts::translated(&path(&share.from), share.looked.inode, attributes, owners).map_err(
            |source| {
                BackendError::Build {
                action: format!("translate the owner of `{}`", shown(share)),
                source,
                hint: Some(
                    "its filesystem may not support it; run bulkhead as the owner of the files \
                     instead of root"
                        .to_owned(),
                ),
            }
            },
        )
    }
}

fn refused(share: &Share, why: &str) -> BackendError {
    BackendError::Share { path: shown(share), why: why.to_owned() }
}

fn shown(share: &Share) -> String {
    escape_bytes(share.from.as_os_str().as_bytes())
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
