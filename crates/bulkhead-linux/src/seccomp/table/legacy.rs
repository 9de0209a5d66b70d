//! Calls that only `x86_64` has: the first generation, and what is about the processor.

use super::super::rule::Rule;
use super::modes::{MKNOD_SECOND, MODE_SECOND, OPEN};
use super::{rule, rules};

/// Older spellings of allowed calls; static and older programs still use them.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_stat: "As newfstatat.";
    SYS_lstat: "As newfstatat.";
    SYS_access: "As faccessat.";
    SYS_readlink: "As readlinkat.";
    SYS_getdents: "As getdents64.";
    SYS_rmdir: "As unlinkat.";
    SYS_unlink: "As unlinkat.";
    SYS_rename: "As renameat.";
    SYS_link: "As linkat.";
    SYS_symlink: "As symlinkat.";
    SYS_chown: "As fchownat.";
    SYS_lchown: "As fchownat.";
    SYS_utime: "As utimensat.";
    SYS_utimes: "As utimensat.";
    SYS_futimesat: "As utimensat.";
    SYS_dup2: "As dup3.";
    SYS_pipe: "As pipe2.";
    SYS_poll: "As ppoll.";
    SYS_select: "As pselect6.";
    SYS_epoll_create: "As epoll_create1.";
    SYS_epoll_wait: "As epoll_pwait.";
    SYS_eventfd: "As eventfd2.";
    SYS_signalfd: "As signalfd4.";
    SYS_inotify_init: "As inotify_init1.";
    SYS_fork: "As clone without a flag.";
    SYS_vfork: "As clone without a namespace; posix_spawn and make use it.";
    SYS_getpgrp: "As getpgid.";
    SYS_pause: "As rt_sigsuspend.";
    SYS_alarm: "As setitimer.";
    SYS_time: "As gettimeofday.";
    SYS_arch_prctl: "Sets the thread pointer; every program starts with it.";
    SYS_uretprobe: "The kernel puts it where the host probes; elsewhere it faults.";
    SYS_uprobe: "The kernel puts it where the host probes; elsewhere it faults.";
};

/// Older spellings of calls that give a file its mode.
pub(super) const INSPECTED: &[Rule] = &[
    rule!(SYS_open, OPEN, "As openat."),
    rule!(SYS_creat, MODE_SECOND, "As openat, to make a file."),
    rule!(SYS_mkdir, MODE_SECOND, "As mkdirat."),
    rule!(SYS_mknod, MKNOD_SECOND, "As mknodat."),
    rule!(SYS_chmod, MODE_SECOND, "As fchmodat."),
];

/// What is about the processor, or has no implementation any more.
pub(super) const REFUSED: &[Rule] = rules! {
    REFUSE;
    SYS_modify_ldt: "16-bit segments; a long record of kernel bugs.";
    SYS_iopl: "Talks to hardware.";
    SYS_ioperm: "Talks to hardware.";
    SYS_set_thread_area: "Only 32-bit programs have one.";
    SYS_get_thread_area: "Only 32-bit programs have one.";
    SYS_uselib: "Maps an a.out library; nothing has used it for decades.";
    SYS_ustat: "Asks about a device; statfs has replaced it.";
    SYS_sysfs: "Lists filesystem drivers; nothing uses it.";
    SYS__sysctl: "Removed from Linux.";
    SYS_create_module: "Removed from Linux.";
    SYS_get_kernel_syms: "Removed from Linux.";
    SYS_query_module: "Removed from Linux.";
    SYS_epoll_ctl_old: "Never implemented.";
    SYS_epoll_wait_old: "Never implemented.";
    SYS_getpmsg: "Never implemented.";
    SYS_putpmsg: "Never implemented.";
    SYS_afs_syscall: "Never implemented.";
    SYS_tuxcall: "Never implemented.";
    SYS_security: "Never implemented.";
    SYS_vserver: "Never implemented.";
};
