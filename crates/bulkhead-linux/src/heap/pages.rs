//! Memory of the kernel's, for whoever hands it out in pieces.

use std::{
    cell::Cell,
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use dlmalloc::Allocator;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

use super::spans::Spans;

/// Pages of the kernel.
pub(super) struct Pages {
    /// How much more is to be mapped when it is asked for, and not when it is touched.
    mapped: AtomicUsize,
    /// What of the first pages is.
    first: First,
    /// Where they are.
    pub(super) spans: Cell<Spans>,
}

/// When the first pages are mapped that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Like all others, when they are asked for.
    Asked,
    /// When they are touched: few of them are before others have something to do meanwhile.
    Touched,
}

impl Pages {
    pub(super) const fn new(mapped: usize, first: First) -> Self {
        Self { mapped: AtomicUsize::new(mapped), first, spans: Cell::new(Spans::NONE) }
    }

    fn add(&self, pointer: *mut u8, size: usize) {
        self.spans.set(self.spans.get().with(pointer.addr(), size));
    }

    fn remove(&self, pointer: *mut u8, size: usize) {
        self.spans.set(self.spans.get().without(pointer.addr(), size));
    }
}

// SAFETY: what is returned is fresh memory of the kernel's, which is zero, and what is given back is
// what was returned.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let left = self.mapped.load(Relaxed);
        self.mapped.store(left.saturating_sub(size), Relaxed);
        let when = if self.spans.get() == Spans::NONE { self.first } else { First::Asked };
        let flags = match when {
            First::Asked if 0 < left => MapFlags::PRIVATE | MapFlags::POPULATE,
            First::Asked | First::Touched => MapFlags::PRIVATE,
        };
        // SAFETY: the kernel chooses where.
        let mapped = unsafe {
            mmap_anonymous(ptr::null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let Ok(mapped) = mapped else { return (ptr::null_mut(), 0, 0) };
        self.add(mapped.cast(), size);
        (mapped.cast(), size, 0)
    }

    fn remap(&self, pointer: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        let flags = if can_move { MremapFlags::MAYMOVE } else { MremapFlags::empty() };
        // SAFETY: dlmalloc gives its own segments, and uses what is returned.
        let moved = unsafe { mremap(pointer.cast(), old, new, flags) };
        let Ok(moved) = moved else { return ptr::null_mut() };
        self.remove(pointer, old);
        self.add(moved.cast(), new);
        moved.cast()
    }

    fn free_part(&self, pointer: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: as above; the end is given back.
        let cut = unsafe { mremap(pointer.cast(), old, new, MremapFlags::empty()) }.is_ok();
        if cut {
            self.remove(pointer.wrapping_add(new), old.saturating_sub(new));
        }
        cut
    }

    fn free(&self, pointer: *mut u8, size: usize) -> bool {
        // SAFETY: as above; nobody uses it any more.
        let freed = unsafe { munmap(pointer.cast(), size) }.is_ok();
        if freed {
            self.remove(pointer, size);
        }
        freed
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        // The C library has been told; whoever asks the kernel waits for the answer.
        // SAFETY: sysconf takes one number.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    }
}
