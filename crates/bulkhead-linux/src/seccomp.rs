//! The system-call filter: an allow-list as data, and the program the kernel runs.
//!
//! The list is a table per theme in [`table`](self::rules), one line and one reason per call; the
//! compiler turns it into classic BPF that finds a call by binary search. The two are apart so
//! that the list can be read, printed and translated (Docker's JSON, `bulkhead plan`) without
//! knowing what the kernel is given.
//!
//! Invariant: what the table does not name is refused. A number of the tables' range answers
//! `EPERM`, a number above it `ENOSYS` (so that a program built for a newer kernel falls back),
//! and a call by another architecture's door ends the process.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the system-call table knows x86_64 and aarch64");

mod arch;
mod compile;
mod install;
mod interpret;
mod numbers;
mod program;
mod rule;
mod table;

pub use arch::Arch;
pub use rule::{Action, Check, Clause, Errno, Rule, Verdict};
use serde::{Deserialize, Serialize};

/// What the programs of a sandbox may ask of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// What ordinary programs, compilers, interpreters and agents need.
    Standard,
    /// [`Profile::Standard`] and what debuggers and tracers need to look into their own children.
    Debug,
}

/// A compiled filter, ready to be installed.
///
/// It is made before the sandbox's process is: [`Filter::install`] allocates nothing and takes no
/// lock, so it may be called between a fork and an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "the kernel checks every instruction that it is given"
)]
pub struct Filter {
    instructions: Vec<program::Instruction>,
}

/// The filter of a profile, for the architecture of this build.
///
/// The same profile gives the same instructions every time.
pub fn filter(profile: Profile) -> Filter {
    Filter { instructions: compile::compile(Arch::NATIVE, rules(profile)) }
}

/// Every system call the profile knows, with what is done about it and why.
///
/// A call is named once. A number that no rule has is refused (see the module).
pub fn rules(profile: Profile) -> impl Iterator<Item = &'static Rule> + Clone {
    table::tables(profile).into_iter().flatten()
}

/// What the kernel would answer to a call, found by running the compiled filter here.
pub fn verdict(profile: Profile, arch: Arch, number: u32, args: [u64; 6]) -> Verdict {
    filter(profile).verdict(arch, number, args)
}

impl Filter {
    /// What the kernel would answer to a call, found by running this filter here.
    pub fn verdict(&self, arch: Arch, number: u32, args: [u64; 6]) -> Verdict {
        interpret::run(&self.instructions, &interpret::Call { arch, number, args })
    }

    /// How many instructions the kernel is given.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Whether the filter has no instruction; none that [`filter`] makes is.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }
}
