//! The numbers of the system calls.
//!
//! They come from `libc`. What it lacks on one of our targets is defined here and shadows it;
//! from 424 on, every architecture has the same numbers.

#![expect(non_upper_case_globals, reason = "named as in the C headers, like those of libc")]

use std::ffi::c_long;

// A definition below shadows what libc may gain.
pub(super) use libc::*;

pub(super) const SYS_cachestat: c_long = 451;
pub(super) const SYS_fchmodat2: c_long = 452;
pub(super) const SYS_map_shadow_stack: c_long = 453;
pub(super) const SYS_futex_wake: c_long = 454;
pub(super) const SYS_futex_wait: c_long = 455;
pub(super) const SYS_futex_requeue: c_long = 456;
pub(super) const SYS_statmount: c_long = 457;
pub(super) const SYS_listmount: c_long = 458;
pub(super) const SYS_lsm_get_self_attr: c_long = 459;
pub(super) const SYS_lsm_set_self_attr: c_long = 460;
pub(super) const SYS_lsm_list_modules: c_long = 461;
pub(super) const SYS_mseal: c_long = 462;
pub(super) const SYS_setxattrat: c_long = 463;
pub(super) const SYS_getxattrat: c_long = 464;
pub(super) const SYS_listxattrat: c_long = 465;
pub(super) const SYS_removexattrat: c_long = 466;
pub(super) const SYS_open_tree_attr: c_long = 467;
pub(super) const SYS_file_getattr: c_long = 468;
pub(super) const SYS_file_setattr: c_long = 469;
pub(super) const SYS_listns: c_long = 470;
pub(super) const SYS_rseq_slice_yield: c_long = 471;

// Older calls, whose numbers differ, that libc lacks for one of the C libraries.
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_create_module: c_long = 174;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_get_kernel_syms: c_long = 177;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_query_module: c_long = 178;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_io_pgetevents: c_long = 333;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_uretprobe: c_long = 335;
#[cfg(target_arch = "x86_64")]
pub(super) const SYS_uprobe: c_long = 336;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_renameat: c_long = 38;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_sync_file_range: c_long = 84;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_getrlimit: c_long = 163;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_setrlimit: c_long = 164;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_io_pgetevents: c_long = 292;
#[cfg(target_arch = "aarch64")]
pub(super) const SYS_kexec_file_load: c_long = 294;
