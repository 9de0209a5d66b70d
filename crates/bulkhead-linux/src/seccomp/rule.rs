//! The words a table is written in.
//!
//! They say no more than Docker's profile format can (masked equality, all of, one of), so that
//! one table serves both filters.

use std::ffi::{c_int, c_long};
use std::fmt;

/// What is done about one system call, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The kernel's name of the call, as in `read`.
    pub name: &'static str,
    /// The call's number on the architecture of this build.
    pub number: u32,
    /// What the kernel answers.
    pub action: Action,
    /// Why this answer, in a sentence.
    pub reason: &'static str,
}

/// How a rule comes to its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// One verdict, whatever the arguments.
    Always(Verdict),
    /// The verdict of the first clause that holds.
    ByArguments {
        /// Tried in order.
        clauses: &'static [Clause],
        /// The verdict if no clause holds.
        otherwise: Verdict,
    },
}

/// A verdict for calls whose arguments pass every check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clause {
    /// What must hold, all of it.
    pub checks: &'static [Check],
    /// What follows then.
    pub verdict: Verdict,
}

/// Holds if `argument & mask` is one of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// The bits that count. For a parameter that the kernel takes as an `int` these are the low
    /// 32: the rest of the register is noise to the kernel, and a filter that compares it is
    /// passed by setting one of its bits (CVE-2019-7303).
    pub mask: u64,
    /// What those bits may be.
    pub values: &'static [u64],
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel performs it.
    Allow,
    /// The kernel does nothing and the caller sees this error.
    Refuse(Errno),
    /// The whole process ends with `SIGSYS`.
    Kill,
}

/// The errors a refused caller may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// `EPERM`: programs treat it as final and say so.
    NotPermitted,
    /// `ENOSYS`: programs take an older way.
    NotImplemented,
    /// `EAFNOSUPPORT`: what a kernel built without the socket family says.
    FamilyNotSupported,
    /// `EPROTONOSUPPORT`: what a kernel built without the protocol says.
    ProtocolNotSupported,
}

impl Rule {
    /// A rule for the call whose `SYS_` constant is given by name and value.
    pub(super) const fn new(
        constant: &'static str,
        number: c_long,
        action: Action,
        reason: &'static str,
    ) -> Self {
        let (_prefix, name) = constant.split_at("SYS_".len());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "call numbers are small and positive, and `From` is not const"
        )]
        let number = number as u32;
        Self { name, number, action, reason }
    }
}

impl Check {
    /// A check of a parameter that the kernel takes as 32 bits.
    pub(super) const fn int(argument: u8, values: &'static [u64]) -> Self {
        Self::bits(argument, u32::MAX as u64, values)
    }

    /// A check of some bits of a parameter.
    pub(super) const fn bits(argument: u8, mask: u64, values: &'static [u64]) -> Self {
        Self { argument, mask, values }
    }
}

/// A C constant as it stands in a register.
pub(super) const fn word(constant: c_int) -> u64 {
    constant.cast_unsigned() as u64
}

impl Errno {
    /// The number the kernel hands to the caller.
    pub fn code(self) -> i32 {
        match self {
            Self::NotPermitted => libc::EPERM,
            Self::NotImplemented => libc::ENOSYS,
            Self::FamilyNotSupported => libc::EAFNOSUPPORT,
            Self::ProtocolNotSupported => libc::EPROTONOSUPPORT,
        }
    }

    /// The name that C gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotPermitted => "EPERM",
            Self::NotImplemented => "ENOSYS",
            Self::FamilyNotSupported => "EAFNOSUPPORT",
            Self::ProtocolNotSupported => "EPROTONOSUPPORT",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow => out.write_str("allow"),
            Self::Refuse(errno) => out.write_str(errno.name()),
            Self::Kill => out.write_str("kill"),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "arg{} & {:#x} in {{", self.argument, self.mask)?;
        for (position, value) in self.values.iter().enumerate() {
            let joint = if position == 0 { "" } else { " " };
            write!(out, "{joint}{value:#x}")?;
        }
        out.write_str("}")
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always(verdict) => verdict.fmt(out),
            Self::ByArguments { clauses, otherwise } => {
                for clause in *clauses {
                    write!(out, "{} if ", clause.verdict)?;
                    for (position, check) in clause.checks.iter().enumerate() {
                        let joint = if position == 0 { "" } else { " and " };
                        write!(out, "{joint}{check}")?;
                    }
                    out.write_str("; ")?;
                }
                write!(out, "else {otherwise}")
            }
        }
    }
}
