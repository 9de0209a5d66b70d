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
    /// Where they are.
    pub(super) spans: Cell<Spans>,
}

impl Pages {
    pub(super) const fn new(mapped: usize) -> Self {
        Self { mapped: AtomicUsize::new(mapped), spans: Cell::new(Spans::NONE) }
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
        let flags = match self.mapped.load(Relaxed) {
            0 => MapFlags::PRIVATE,
            left => {
                self.mapped.store(left.saturating_sub(size), Relaxed);
                MapFlags::PRIVATE | MapFlags::POPULATE
            }
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
        rustix::param::page_size()
    }
}
