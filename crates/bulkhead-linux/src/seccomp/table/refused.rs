//! What no profile allows, and why.
//!
//! To leave a line out would change no answer but those that are `ENOSYS`.

use super::super::rule::Rule;
use super::rules;

/// Refused in the way that makes programs fall back to something older.
pub(super) const ABSENT: &[Rule] = rules! {
    ABSENT;
    SYS_clone3: "Its flags are behind a pointer, where no filter sees them; clone does.";
    SYS_openat2: "Its mode is behind a pointer, where no filter sees a set-ID bit; openat's is not.";
    SYS_io_uring_setup: "Performs other calls without asking this filter.";
    SYS_io_uring_enter: "Performs other calls without asking this filter.";
    SYS_io_uring_register: "Performs other calls without asking this filter.";
};

/// Refused for good.
pub(super) const REFUSED: &[Rule] = rules! {
    REFUSE;
    SYS_setns: "Enters another namespace.";
    SYS_listns: "Lists namespaces, also of others.";
    SYS_chroot: "Changes the root, from which a process can climb out.";
    SYS_pivot_root: "Changes the root of a mount namespace.";
    SYS_mount: "Changes what is visible; masks and read-only mounts depend on it.";
    SYS_umount2: "Uncovers what a mount hides.";
    SYS_open_tree: "Mounts, new interface.";
    SYS_open_tree_attr: "Mounts, new interface.";
    SYS_move_mount: "Mounts, new interface.";
    SYS_fsopen: "Mounts, new interface; its parsers have been exploited (CVE-2022-0185).";
    SYS_fsconfig: "Mounts, new interface; its parsers have been exploited (CVE-2022-0185).";
    SYS_fsmount: "Mounts, new interface.";
    SYS_fspick: "Mounts, new interface.";
    SYS_mount_setattr: "Could make a read-only mount writable.";
    SYS_statmount: "Shows mounts, and with them paths of the host.";
    SYS_listmount: "Lists mounts.";
    SYS_open_by_handle_at: "Opens a file past the directories above it.";
    SYS_name_to_handle_at: "Makes the handles for the line above.";
    SYS_file_setattr: "Sets a file's project, by which a disk quota counts.";
    SYS_quotactl: "Administers disk quotas.";
    SYS_quotactl_fd: "Administers disk quotas.";
    SYS_fanotify_init: "Watches whole filesystems, and can hold up others' access.";
    SYS_fanotify_mark: "Watches whole filesystems, and can hold up others' access.";
    SYS_lookup_dcookie: "Turns a profiler's cookie into a path.";
    SYS_swapon: "Administers swap.";
    SYS_swapoff: "Administers swap.";
    SYS_acct: "Writes a record of every process of the host.";
    SYS_nfsservctl: "Removed from Linux.";
    SYS_vhangup: "Takes the terminal from everybody.";
    SYS_syslog: "Reads the host's kernel messages, and addresses in them.";
    SYS_bpf: "Loads programs into the kernel.";
    SYS_perf_event_open: "Observes the host; a long record of kernel bugs.";
    SYS_userfaultfd: "Stops the kernel at a chosen place, which makes its races winnable.";
    SYS_add_key: "Keys belong to the user id, not to the sandbox.";
    SYS_request_key: "Keys belong to the user id, not to the sandbox.";
    SYS_keyctl: "Keys belong to the user id, not to the sandbox.";
    SYS_process_madvise: "Works on another process's memory.";
    SYS_process_mrelease: "Works on another process's memory.";
    SYS_vmsplice: "Gives own pages to a pipe without a copy (CVE-2020-29374).";
    SYS_memfd_secret: "Memory that not even the host's administrator can look into.";
    SYS_remap_file_pages: "Deprecated, and only emulated.";
    SYS_mbind: "Places memory on nodes of the host; libnuma copes without.";
    SYS_set_mempolicy: "Places memory on nodes of the host; libnuma copes without.";
    SYS_set_mempolicy_home_node: "Places memory on nodes of the host.";
    SYS_get_mempolicy: "Without the others it has nothing to tell; libnuma asks it first.";
    SYS_migrate_pages: "Moves another process's memory.";
    SYS_move_pages: "Moves another process's memory, and tells where it is.";
    SYS_lsm_get_self_attr: "Tells how the host's security modules see the caller.";
    SYS_lsm_set_self_attr: "Changes how the host's security modules see the caller.";
    SYS_lsm_list_modules: "Lists the host's security modules.";
    SYS_init_module: "Loads a kernel module.";
    SYS_finit_module: "Loads a kernel module.";
    SYS_delete_module: "Unloads a kernel module.";
    SYS_kexec_load: "Starts another kernel.";
    SYS_kexec_file_load: "Starts another kernel.";
    SYS_reboot: "Ends the host.";
    SYS_sethostname: "The name is the sandbox's for its lifetime.";
    SYS_setdomainname: "The name is the sandbox's for its lifetime.";
    SYS_settimeofday: "Sets the host's clock.";
    SYS_clock_settime: "Sets the host's clock.";
    SYS_clock_adjtime: "Sets the host's clock.";
    SYS_adjtimex: "Sets the host's clock.";
};
