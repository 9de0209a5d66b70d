//! Calls that no program in a sandbox should be able to make.
//!
//! Each is made with arguments that the kernel refuses for another reason than the filter would:
//! no address, no descriptor, no such flag. So they tell whether the kernel was reached, and change
//! nothing where it was, not even for root.

use libc::{ENOSYS, EPERM, c_int, c_long};

/// One call.
pub(super) struct Probe {
    pub(super) name: &'static str,
    pub(super) number: c_long,
    pub(super) args: &'static [i64],
    /// What the filter answers.
    pub(super) refusal: c_int,
}

macro_rules! probes {
    ($($name:ident $args:tt $refusal:ident;)*) => {
        &[$(Probe {
            name: stringify!($name),
            number: libc::$name,
            args: &$args,
            refusal: $refusal,
        }),*]
    };
}

/// An address where nothing is.
const NOWHERE: i64 = 1;

pub(super) const PROBES: &[Probe] = probes! {
    SYS_io_uring_setup [1, NOWHERE] ENOSYS;
    SYS_io_uring_enter [-1, 0, 0, 0, 0, 0] ENOSYS;
    SYS_io_uring_register [-1, 0, 0, 0] ENOSYS;
    SYS_clone3 [NOWHERE, 0] ENOSYS;
    SYS_openat2 [-1, NOWHERE, NOWHERE, 0] ENOSYS;
    SYS_bpf [9999, NOWHERE, 8] EPERM;
    SYS_perf_event_open [NOWHERE, 0, -1, -1, 0] EPERM;
    SYS_userfaultfd [-1] EPERM;
    SYS_keyctl [9999, 0, 0, 0, 0] EPERM;
    SYS_add_key [NOWHERE, NOWHERE, 0, 0, 0] EPERM;
    SYS_request_key [NOWHERE, NOWHERE, 0, 0] EPERM;
    SYS_ptrace [9999, 0x7fff_ffff, 0, 0] EPERM;
    SYS_process_vm_readv [-1, 0, 0, 0, 0, 1] EPERM;
    SYS_process_vm_writev [-1, 0, 0, 0, 0, 1] EPERM;
    SYS_kcmp [0x7fff_ffff, 0x7fff_ffff, 99, 0, 0] EPERM;
    SYS_pidfd_getfd [-1, -1, 1] EPERM;
    SYS_process_madvise [-1, 0, 0, 0, 1] EPERM;
    SYS_init_module [NOWHERE, 0, NOWHERE] EPERM;
    SYS_finit_module [-1, NOWHERE, -1] EPERM;
    SYS_delete_module [NOWHERE, 0] EPERM;
    SYS_open_by_handle_at [-1, NOWHERE, 0] EPERM;
    SYS_name_to_handle_at [-1, NOWHERE, NOWHERE, NOWHERE, 0xffff] EPERM;
    SYS_fanotify_init [0xffff_ffff, 0] EPERM;
    SYS_quotactl [-1, NOWHERE, 0, NOWHERE] EPERM;
    SYS_swapon [NOWHERE, 0x7fff_ffff] EPERM;
    SYS_swapoff [NOWHERE] EPERM;
    SYS_acct [NOWHERE] EPERM;
    SYS_syslog [99, 0, 0] EPERM;
    SYS_settimeofday [NOWHERE, 0] EPERM;
    SYS_clock_settime [0, NOWHERE] EPERM;
    SYS_clock_adjtime [0, NOWHERE] EPERM;
    SYS_adjtimex [NOWHERE] EPERM;
    SYS_sethostname [NOWHERE, -1] EPERM;
    SYS_setdomainname [NOWHERE, -1] EPERM;
    SYS_vmsplice [-1, 0, 0, 0xff] EPERM;
    SYS_migrate_pages [0x7fff_ffff, 0, NOWHERE, NOWHERE] EPERM;
    SYS_move_pages [0x7fff_ffff, 0, 0, 0, 0, 0xff] EPERM;
};

pub(super) const MOUNTS: &[Probe] = probes! {
    SYS_mount [NOWHERE, NOWHERE, NOWHERE, 0, 0] EPERM;
    SYS_umount2 [NOWHERE, -1] EPERM;
    SYS_pivot_root [NOWHERE, NOWHERE] EPERM;
    SYS_chroot [NOWHERE] EPERM;
    SYS_open_tree [-1, NOWHERE, 0x7fff_ffff] EPERM;
    SYS_move_mount [-1, NOWHERE, -1, NOWHERE, 0x7fff_ffff] EPERM;
    SYS_fsopen [NOWHERE, -1] EPERM;
    SYS_fsconfig [-1, 99, NOWHERE, NOWHERE, 0] EPERM;
    SYS_fsmount [-1, -1, -1] EPERM;
    SYS_fspick [-1, NOWHERE, -1] EPERM;
    SYS_mount_setattr [-1, NOWHERE, -1, NOWHERE, 0] EPERM;
    SYS_setns [-1, 0] EPERM;
    SYS_unshare [1] EPERM;
};
