//! Memory of the calling process.

use super::super::rule::Rule;
use super::rules;

/// Calls that touch only the caller's own memory.
pub(super) const ALLOWED: &[Rule] = rules! {
    ALLOW;
    SYS_brk: "Grows the heap.";
    SYS_mmap: "Maps memory or a file.";
    SYS_munmap: "Unmaps memory.";
    SYS_mremap: "Moves or resizes a mapping; realloc does.";
    SYS_mprotect: "Changes protection; JIT compilers and loaders need it.";
    SYS_pkey_mprotect: "Changes protection with a key; V8 uses it.";
    SYS_pkey_alloc: "Makes a protection key; V8 uses it.";
    SYS_pkey_free: "Frees a protection key.";
    SYS_mseal: "Forbids later changes to a mapping; hardens the caller.";
    SYS_map_shadow_stack: "Makes a shadow stack; hardens the caller.";
    SYS_madvise: "Advises on own memory; allocators give pages back by it.";
    SYS_mincore: "Asks which own pages are resident; Java uses it.";
    SYS_msync: "Writes a mapping back to its file.";
    SYS_mlock: "Keeps pages in memory, within RLIMIT_MEMLOCK.";
    SYS_mlock2: "Keeps pages in memory, within RLIMIT_MEMLOCK.";
    SYS_munlock: "Lets pages go again.";
    SYS_mlockall: "Keeps all pages in memory, within RLIMIT_MEMLOCK.";
    SYS_munlockall: "Lets all pages go again.";
    SYS_membarrier: "Orders memory between threads; runtimes and databases use it.";
};
