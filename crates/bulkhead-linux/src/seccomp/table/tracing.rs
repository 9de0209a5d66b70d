//! Looking into another process: what the two profiles differ in.

use super::super::rule::{Action, Check, Clause, Errno, Rule, Verdict, word};
use super::{rule, rules};

/// What a debugger needs, refused.
pub(super) const STANDARD: &[Rule] = rules! {
    REFUSE;
    SYS_ptrace: "Controls another process; only the debug profile has it.";
    SYS_process_vm_readv: "Reads another process's memory; only the debug profile has it.";
    SYS_process_vm_writev: "Writes another process's memory; only the debug profile has it.";
    SYS_kcmp: "Compares kernel objects of two processes; only the debug profile has it.";
    SYS_pidfd_getfd: "Takes another process's descriptor; only the debug profile has it.";
};

/// What a debugger needs. The kernel lets it at processes of the same user that are dumpable,
/// which the sandbox's init is not.
pub(super) const DEBUG: &[Rule] = rules! {
    ALLOW;
    SYS_ptrace: "Controls another process, as gdb and strace do.";
    SYS_process_vm_readv: "Reads a traced process's memory.";
    SYS_process_vm_writev: "Writes a traced process's memory.";
    SYS_kcmp: "Compares kernel objects of two processes.";
    SYS_pidfd_getfd: "Takes a traced process's descriptor.";
};

/// The execution domain, which is asked for by setting it to all ones.
pub(super) const STANDARD_INSPECTED: &[Rule] = &[rule!(
    SYS_personality,
    Action::ByArguments {
        clauses: &[Clause { checks: &[Check::int(0, &[0, QUERY])], verdict: Verdict::Allow }],
        otherwise: Verdict::Refuse(Errno::NotPermitted),
    },
    "Asked for, not changed: the other domains weaken a process."
)];

/// The same, and addresses that do not change from run to run.
pub(super) const DEBUG_INSPECTED: &[Rule] = &[rule!(
    SYS_personality,
    Action::ByArguments {
        clauses: &[Clause {
            checks: &[Check::int(0, &[0, QUERY, word(libc::ADDR_NO_RANDOMIZE)])],
            verdict: Verdict::Allow,
        }],
        otherwise: Verdict::Refuse(Errno::NotPermitted),
    },
    "Asked for, or changed to fixed addresses, as gdb does."
)];

const QUERY: u64 = u32::MAX as u64;
