//! Parts of the host's tree, prepared so that their owner appears as the sandbox's user.

use std::{
    ffi::CString,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
};

use bulkhead_linux::{
    mounts::{self, Attributes},
    steps::{Place, Step},
};
use bulkhead_spec::escape_bytes;

use crate::{
    BackendError,
    identity::{Identity, Translations},
    native::create::built,
    workspace::share::Share,
};

/// The trees of one sandbox. To let go of them takes a while.
#[derive(Debug)]
pub(in crate::native) struct Trees {
    identity: Identity,
    wanted: Vec<(Share, Attributes)>,
    translations: Translations,
    prepared: Vec<OwnedFd>,
}

impl Trees {
    /// The most that one sandbox can have: they go to the child in one message.
    pub(super) const MOST: usize = 64;

    pub(super) fn of(identity: Identity) -> Self {
        Self {
            identity,
            wanted: Vec::new(),
            translations: Translations::default(),
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
                let tree = self.wanted.len();
                if tree == Self::MOST {
                    return Err(refused(&share, "more than 64 things are shared"));
                }
                self.wanted.push((share, attributes));
                Ok(Step::Attach { tree, target })
            }
        }
    }

    /// Prepares them, in the order of the steps that show them.
    pub(super) fn prepare(&mut self) -> Result<&[OwnedFd], BackendError> {
        if let Identity::Mapped { outside } = self.identity {
            for (share, attributes) in std::mem::take(&mut self.wanted) {
                let translated = self.translate(&share, attributes, outside)?;
                self.prepared.push(translated);
            }
        }
        Ok(&self.prepared)
    }

    fn translate(
        &mut self,
        share: &Share,
        attributes: Attributes,
        outside: u32,
    ) -> Result<OwnedFd, BackendError> {
        let owners = self
            .translations
            .of(share.looked.owner, outside)
            .map_err(built("make a namespace that translates owners"))?;
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
