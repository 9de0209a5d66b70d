//! Memory for programs that start often and end soon.
//!
//! The C library that we link asks the kernel for memory page by page, and each page is mapped when
//! it is first touched. Together that takes a noticeable part of a start.

use std::{
    alloc::{GlobalAlloc, Layout},
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// An allocator for a whole program.
pub struct Heap(Mutex<Dlmalloc<Pages>>);

impl Heap {
    /// One that gets its first `bytes` mapped, some pages at a time.
    pub const fn new(bytes: usize) -> Self {
        let mapped = AtomicUsize::new(bytes);
        Self(Mutex::new(Dlmalloc::new_with_allocator(Pages { mapped })))
    }

    fn lock(&self) -> MutexGuard<'_, Dlmalloc<Pages>> {
        // Nothing in there panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: dlmalloc returns memory that is apart from all other, aligned as asked, until it is freed;
// the lock lets one thread in at a time. It does not panic.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        unsafe { self.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches that it is ours, with this layout.
        unsafe { self.lock().free(pointer, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        unsafe { self.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches that it is ours, with this layout.
        unsafe { self.lock().realloc(pointer, layout.size(), layout.align(), size) }
    }
}

/// Pages of the kernel.
struct Pages {
    /// How much more is to be mapped when it is asked for, and not when it is touched.
    mapped: AtomicUsize,
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
        mapped.map_or((ptr::null_mut(), 0, 0), |it| (it.cast(), size, 0))
    }

    fn remap(&self, pointer: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        let flags = if can_move { MremapFlags::MAYMOVE } else { MremapFlags::empty() };
        // SAFETY: dlmalloc gives its own segments, and uses what is returned.
        let moved = unsafe { mremap(pointer.cast(), old, new, flags) };
        moved.map_or(ptr::null_mut(), <*mut _>::cast)
    }

    fn free_part(&self, pointer: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: as above; the end is given back.
        unsafe { mremap(pointer.cast(), old, new, MremapFlags::empty()) }.is_ok()
    }

    fn free(&self, pointer: *mut u8, size: usize) -> bool {
        // SAFETY: as above; nobody uses it any more.
        unsafe { munmap(pointer.cast(), size) }.is_ok()
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

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc as _, Layout};

    use super::Heap;

    #[test]
    fn memory_is_apart_zero_where_asked_and_kept_when_it_grows() {
        for first in [0, 320 * 1024] {
            let heap = Heap::new(first);
            let mut all = Vec::new();
            for size in [1, 24, 4096, 70_000, 1 << 20] {
                let layout = Layout::from_size_align(size, 16).unwrap();
                // SAFETY: the layout is not empty.
                let pointer = unsafe { heap.alloc_zeroed(layout) };
                assert!(!pointer.is_null() && pointer.addr().is_multiple_of(16));
                // SAFETY: it is `size` bytes of ours, and zero.
                let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, size) };
                assert!(bytes.iter().all(|it| *it == 0));
                bytes.fill(u8::try_from(all.len() + 1).unwrap());
                all.push((pointer, layout));
            }
            for (at, (pointer, layout)) in all.into_iter().enumerate() {
                // SAFETY: it came from this heap with this layout.
                let grown = unsafe { heap.realloc(pointer, layout, layout.size() * 2) };
                // SAFETY: it is that large now, and what was there was moved along.
                let bytes = unsafe { std::slice::from_raw_parts(grown, layout.size()) };
                assert!(bytes.iter().all(|it| usize::from(*it) == at + 1));
                let layout = Layout::from_size_align(layout.size() * 2, 16).unwrap();
                // SAFETY: as above.
                unsafe { heap.dealloc(grown, layout) };
            }
        }
    }
}
