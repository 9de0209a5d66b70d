//! Calls that give a file its mode, in which nobody may ask for set-user-ID or set-group-ID.
//!
//! Inside, `nosuid` mounts take their effect away. But a workspace is also seen from the host, and
//! if its owner is root there, through a mount that translates owners: a file that the sandbox
//! makes belongs to root, and with the bit would run as root for whoever starts it. The sticky bit
//! lends nobody's rights and stays.

use super::super::rule::{Action, Check, Clause, Errno, Rule, Verdict, word};
use super::rule;

/// Each is known by where its mode is. The kernel takes a mode as 16 bits.
pub(super) const INSPECTED: &[Rule] = &[
    rule!(
        SYS_openat,
        OPENAT,
        "Opens a file; mounts and Landlock say which. Makes no set-ID file."
    ),
    rule!(SYS_mkdirat, MODE_THIRD, "Makes a directory; not set-ID."),
    rule!(
        SYS_mknodat,
        MKNOD_THIRD,
        "Makes files, FIFOs and sockets; no device nodes, not set-ID."
    ),
    rule!(SYS_fchmod, MODE_SECOND, "Sets the mode of an open file; not set-ID."),
    rule!(SYS_fchmodat, MODE_THIRD, "Sets a mode; not set-ID, which the host would heed."),
    rule!(SYS_fchmodat2, MODE_THIRD, "The same with flags."),
];

/// Set-user-ID and set-group-ID.
const SET_ID: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// For a call whose second argument is the mode.
pub(super) const MODE_SECOND: Action = Action::ByArguments {
    clauses: &[Clause { checks: &[Check::bits(1, SET_ID, &[0])], verdict: Verdict::Allow }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// For a call whose third argument is the mode.
const MODE_THIRD: Action = Action::ByArguments {
    clauses: &[Clause { checks: &[Check::bits(2, SET_ID, &[0])], verdict: Verdict::Allow }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// The flags by which opening makes a file. Without one of them the kernel ignores the mode, and
/// callers leave in its register whatever was there. `O_TMPFILE` is two bits; this is the one of
/// them by which the kernel decides, the other says that a directory is opened.
const MAKES: u64 = word(libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY));

/// `openat` has its flags third and the mode fourth.
const OPENAT: Action = Action::ByArguments {
    clauses: &[
        Clause { checks: &[Check::bits(2, MAKES, &[0])], verdict: Verdict::Allow },
        Clause { checks: &[Check::bits(3, SET_ID, &[0])], verdict: Verdict::Allow },
    ],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// `open` has its flags second and the mode third.
#[cfg(target_arch = "x86_64")]
pub(super) const OPEN: Action = Action::ByArguments {
    clauses: &[
        Clause { checks: &[Check::bits(1, MAKES, &[0])], verdict: Verdict::Allow },
        Clause { checks: &[Check::bits(2, SET_ID, &[0])], verdict: Verdict::Allow },
    ],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// The bits of a mode that say what is made, and for whom it runs.
const MADE: u64 = libc::S_IFMT as u64 | SET_ID;

/// What `mknod` may make: a file (0 says so too), a FIFO, a socket; none of them set-ID.
const WITHOUT_DEVICE: &[u64] =
    &[0, libc::S_IFREG as u64, libc::S_IFIFO as u64, libc::S_IFSOCK as u64];

/// `mknodat` has the mode as its third argument.
const MKNOD_THIRD: Action = Action::ByArguments {
    clauses: &[Clause {
        checks: &[Check::bits(2, MADE, WITHOUT_DEVICE)],
        verdict: Verdict::Allow,
    }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// `mknod` has the mode as its second argument.
#[cfg(target_arch = "x86_64")]
pub(super) const MKNOD_SECOND: Action = Action::ByArguments {
    clauses: &[Clause {
        checks: &[Check::bits(1, MADE, WITHOUT_DEVICE)],
        verdict: Verdict::Allow,
    }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};
