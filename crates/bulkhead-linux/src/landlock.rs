//! File access by directory, on top of what mounts allow.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt as _, path::Path};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags, open};

use crate::walls::WallFailed;

/// The newest version of Landlock that we use; older kernels get what they have.
const NEWEST: ABI = ABI::V6;

/// The version of Landlock that this kernel has, 0 for none.
pub fn version() -> u32 {
    // SAFETY: asking for the version takes no pointer, and the flag says that it is only asked.
    let answer =
        unsafe { crate::sys::call(libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0]) };
    answer.ok().and_then(|version| u32::try_from(version).ok()).unwrap_or_default()
}

/// Allows this process and its children to change only what lies below `writable`, to read and run
/// the rest, and to reach no abstract socket and no process outside.
///
/// A kernel without Landlock restricts nothing; mounts and namespaces hold without it.
pub(crate) fn restrict(writable: &[Vec<u8>]) -> Result<(), WallFailed> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|it| it.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    let mut ruleset = rule(ruleset, Path::new("/"), read)?;
    ruleset =
        rule(ruleset, Path::new("/dev"), read | AccessFs::WriteFile | AccessFs::IoctlDev)?;
    for path in writable {
        ruleset = rule(ruleset, Path::new(OsStr::from_bytes(path)), all)?;
    }
    ruleset.restrict_self().map(drop).map_err(refused)
}

fn refused(error: RulesetError) -> WallFailed {
    WallFailed { action: "restrict file access".to_owned(), source: io::Error::other(error) }
}

fn rule(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, WallFailed> {
    // An image can have it where its user does not reach, so the path is told.
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = file.map_err(|errno| WallFailed {
        action: format!("open `{}` to restrict file access", path.display()),
        source: errno.into(),
    })?;
    // A file takes only those rights that make sense for a file: where all is done as far as it can
    // be, the others are left out.
    ruleset.add_rule(PathBeneath::new(file, access)).map_err(refused)
}
