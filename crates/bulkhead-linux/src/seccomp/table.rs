//! The list itself, a table per theme.
//!
//! Each line names a call by its constant and gives the reason for its answer. Every call that
//! Linux has on this architecture is on some line, the refused ones too: so a reader finds the
//! reason, and a new call that nobody has judged is visible as a gap.

mod files;
mod identity;
mod ipc;
#[cfg_attr(not(target_arch = "x86_64"), path = "table/no_legacy.rs")]
mod legacy;
mod memory;
mod modes;
mod processes;
mod refused;
mod sockets;
mod time;
mod tracing;

use super::Profile;
use super::rule::{Action, Errno, Rule, Verdict};

/// One rule for the call whose constant is named.
macro_rules! rule {
    ($name:ident, $action:expr, $reason:literal) => {
        $crate::seccomp::rule::Rule::new(
            stringify!($name),
            $crate::seccomp::numbers::$name,
            $action,
            $reason,
        )
    };
}

/// Rules with the same action.
macro_rules! rules {
    ($action:ident; $($name:ident: $reason:literal;)*) => {
        &[$($crate::seccomp::table::rule!(
            $name,
            $crate::seccomp::table::$action,
            $reason
        )),*]
    };
}

use {rule, rules};

const ALLOW: Action = Action::Always(Verdict::Allow);

/// Programs take it as final.
const REFUSE: Action = Action::Always(Verdict::Refuse(Errno::NotPermitted));

/// Programs take an older way.
const ABSENT: Action = Action::Always(Verdict::Refuse(Errno::NotImplemented));

/// The tables of a profile, in the order in which they are best read.
pub(super) fn tables(profile: Profile) -> [&'static [Rule]; 19] {
    let (traced, inspected) = match profile {
        Profile::Standard => (tracing::STANDARD, tracing::STANDARD_INSPECTED),
        Profile::Debug => (tracing::DEBUG, tracing::DEBUG_INSPECTED),
    };
    [
        files::DATA,
        files::NAMES,
        files::INSPECTED,
        modes::INSPECTED,
        memory::ALLOWED,
        processes::ALLOWED,
        processes::INSPECTED,
        identity::ALLOWED,
        time::ALLOWED,
        sockets::ALLOWED,
        sockets::INSPECTED,
        ipc::ALLOWED,
        legacy::ALLOWED,
        legacy::INSPECTED,
        traced,
        inspected,
        refused::ABSENT,
        refused::REFUSED,
        legacy::REFUSED,
    ]
}
