//! Processes, threads, signals and their scheduling.

use super::super::rule::{Action, Check, Clause, Errno, Rule, Verdict, word};
use super::{rule, rules};

/// Calls that reach no further than the sandbox's own process namespace.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_execve: "Starts a program; it inherits this filter.";
    SYS_execveat: "Starts a program from a descriptor; it inherits this filter.";
    SYS_exit: "Ends a thread.";
    SYS_exit_group: "Ends a process.";
    SYS_wait4: "Waits for a child.";
    SYS_waitid: "Waits for a child.";
    SYS_pidfd_open: "Makes a handle of a process in the sandbox.";
    SYS_pidfd_send_signal: "Signals a process in the sandbox.";
    SYS_kill: "Signals a process in the sandbox.";
    SYS_tkill: "Signals a thread in the sandbox.";
    SYS_tgkill: "Signals a thread in the sandbox; abort does.";
    SYS_rt_sigaction: "Sets a signal handler.";
    SYS_rt_sigprocmask: "Blocks signals.";
    SYS_rt_sigreturn: "Returns from a signal handler.";
    SYS_rt_sigpending: "Asks which signals wait.";
    SYS_rt_sigsuspend: "Waits for a signal.";
    SYS_rt_sigtimedwait: "Waits for a signal, not for ever.";
    SYS_rt_sigqueueinfo: "Signals a process with a value.";
    SYS_rt_tgsigqueueinfo: "Signals a thread with a value.";
    SYS_sigaltstack: "Sets the stack of signal handlers; Rust, Go and Java do.";
    SYS_restart_syscall: "The kernel resumes an interrupted call by it.";
    SYS_getpid: "Asks for the own id.";
    SYS_getppid: "Asks for the parent's id.";
    SYS_gettid: "Asks for the thread's id.";
    SYS_getpgid: "Asks for a process group.";
    SYS_setpgid: "Makes a process group; shells do for job control.";
    SYS_getsid: "Asks for a session.";
    SYS_setsid: "Makes a session; the process namespace still holds it.";
    SYS_set_tid_address: "Every thread starts with it.";
    SYS_set_robust_list: "Every thread starts with it.";
    SYS_get_robust_list: "Asks for a thread's list of locks.";
    SYS_rseq: "Every thread starts with it on current C libraries.";
    SYS_rseq_slice_yield: "Gives back a time slice that rseq prolonged.";
    SYS_futex: "Locks of every program with threads.";
    SYS_futex_waitv: "Waits on several locks; game and Windows runtimes do.";
    SYS_futex_wake: "Locks, second interface.";
    SYS_futex_wait: "Locks, second interface.";
    SYS_futex_requeue: "Locks, second interface.";
    SYS_prctl: "Names threads, sets limits on oneself; no_new_privs holds.";
    SYS_seccomp: "Adds a filter on oneself; it can only take away more.";
    SYS_landlock_create_ruleset: "Restricts oneself; agents wrap their own children so.";
    SYS_landlock_add_rule: "Restricts oneself; agents wrap their own children so.";
    SYS_landlock_restrict_self: "Restricts oneself; agents wrap their own children so.";
    SYS_getrlimit: "Asks for a limit.";
    SYS_setrlimit: "Lowers a limit; raising needs a capability.";
    SYS_prlimit64: "Asks for or lowers a limit.";
    SYS_getrusage: "Asks for own resource use.";
    SYS_getpriority: "Asks for niceness.";
    SYS_setpriority: "Lowers priority; raising needs a capability.";
    SYS_ioprio_get: "Asks for disk priority.";
    SYS_ioprio_set: "Lowers disk priority.";
    SYS_sched_yield: "Lets another thread run.";
    SYS_sched_getaffinity: "Counts processors; nproc and every thread pool do.";
    SYS_sched_setaffinity: "Pins a thread, within the cgroup's processors.";
    SYS_sched_getparam: "Asks for the scheduling of a thread.";
    SYS_sched_setparam: "Sets it; real time needs RLIMIT_RTPRIO, which is 0.";
    SYS_sched_getscheduler: "Asks for the scheduling of a thread.";
    SYS_sched_setscheduler: "Sets it; real time needs RLIMIT_RTPRIO, which is 0.";
    SYS_sched_getattr: "Asks for the scheduling of a thread.";
    SYS_sched_setattr: "Sets it; real time needs RLIMIT_RTPRIO, which is 0.";
    SYS_sched_get_priority_max: "Asks for a constant; thread libraries do.";
    SYS_sched_get_priority_min: "Asks for a constant; thread libraries do.";
    SYS_sched_rr_get_interval: "Asks for the length of a time slice.";
    SYS_getcpu: "Asks on which processor one runs.";
    SYS_uname: "Asks for the kernel's name and version.";
    SYS_sysinfo: "Asks for memory and load; free and runtimes do.";
    SYS_getrandom: "Random numbers.";
};

/// Calls that make a process, or a namespace.
pub(super) const INSPECTED: &[Rule] = &[
    rule!(SYS_clone, CLONE, "Makes threads and processes, but no namespace."),
    rule!(SYS_unshare, UNSHARE, "Unshares what belongs to the process; no namespace."),
];

/// Each of these makes a namespace: in a new user namespace a process has every capability, and
/// with them reaches kernel code that was written for root alone.
const NAMESPACES: u64 = word(
    libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET,
);

/// `CLONE_NEWTIME` is not among them: for `clone` its bit is part of the exit signal.
const CLONE: Action = Action::ByArguments {
    clauses: &[Clause { checks: &[Check::bits(0, NAMESPACES, &[0])], verdict: Verdict::Allow }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};

/// An allow-list, all 64 bits of it: a flag that Linux gains is refused.
const UNSHARE: Action = Action::ByArguments {
    clauses: &[Clause {
        checks: &[Check::bits(
            0,
            !word(libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SYSVSEM),
            &[0],
        )],
        verdict: Verdict::Allow,
    }],
    otherwise: Verdict::Refuse(Errno::NotPermitted),
};
