//! Memory for programs that start often and end soon.
//!
//! The C library that we link asks the kernel for memory page by page, and each page is mapped when
//! it is first touched. Together that takes a noticeable part of a start.

mod spans;

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use self::spans::Spans;

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// An allocator for a whole program.
pub struct Heap(Mutex<Memory>);

struct Memory {
    own: Dlmalloc<Pages>,
    /// Where that lies which was left.
    left: Spans,
}

impl Heap {
    /// One that gets its first `bytes` mapped, some pages at a time.
    pub const fn new(bytes: usize) -> Self {
        Self(Mutex::new(Memory {
            own: Dlmalloc::new_with_allocator(Pages::new(bytes)),
            left: Spans::NONE,
        }))
    }

    /// Begins anew with `bytes`, mapped, and leaves everything that was allocated as it is, for good.
    ///
    /// For a copy of a process: its memory is that of the original until it is written to, and to
    /// allocate and free here and there would copy it page by page. One that lies in too many places
    /// goes on as it is.
    pub fn renew(&self, bytes: usize) {
        let mut memory = self.lock();
        let Some(left) = memory.left.and(&memory.own.allocator().spans.get()) else { return };
        memory.left = left;
        // The one before does not give its pages back.
        memory.own = Dlmalloc::new_with_allocator(Pages::new(bytes));
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        // Nothing in there panics halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: dlmalloc returns memory that is apart from all other, aligned as asked, until it is freed;
// the lock lets one thread in at a time. It does not panic.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        unsafe { self.lock().own.malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let mut memory = self.lock();
        if !memory.left.contains(pointer.addr()) {
            // SAFETY: the caller vouches that it is ours, with this layout.
            unsafe { memory.own.free(pointer, layout.size(), layout.align()) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        unsafe { self.lock().own.calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut memory = self.lock();
        if !memory.left.contains(pointer.addr()) {
            // SAFETY: the caller vouches that it is ours, with this layout.
            return unsafe { memory.own.realloc(pointer, layout.size(), layout.align(), size) };
        }
        // SAFETY: the caller vouches for the size.
        let fresh = unsafe { memory.own.malloc(size, layout.align()) };
        if !fresh.is_null() {
            // SAFETY: both are that long at least, and apart.
            unsafe { ptr::copy_nonoverlapping(pointer, fresh, layout.size().min(size)) };
        }
        fresh
    }
}

/// Pages of the kernel.
struct Pages {
    /// How much more is to be mapped when it is asked for, and not when it is touched.
    mapped: AtomicUsize,
    /// Where they are.
    spans: Cell<Spans>,
}

impl Pages {
    const fn new(mapped: usize) -> Self {
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

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc as _, Layout};

    use super::Heap;

    /// Three bytes of `heap`'s.
    fn three(heap: &Heap, byte: u8) -> (*mut u8, Layout) {
        let layout = Layout::from_size_align(3, 1).unwrap();
        // SAFETY: the layout is not empty.
        let pointer = unsafe { heap.alloc(layout) };
        // SAFETY: the bytes are ours.
        unsafe { pointer.write_bytes(byte, 3) };
        (pointer, layout)
    }

    #[test]
    fn what_was_there_before_a_heap_was_renewed_stays_as_it_is() {
        let heap = Heap::new(320 * 1024);
        let [(freed, layout), (grown, _), (kept, _)] = [1, 2, 3].map(|it| three(&heap, it));
        heap.renew(64 * 1024);
        // SAFETY: it came from this heap with this layout.
        unsafe { heap.dealloc(freed, layout) };
        // SAFETY: as above.
        let moved = unsafe { heap.realloc(grown, layout, 100) };
        for _ in 0..10_000 {
            let (fresh, _) = three(&heap, 9);
            assert!(![freed, grown, moved, kept].contains(&fresh));
        }
        for (pointer, byte) in [(moved, 2), (kept, 3)] {
            // SAFETY: what was there was moved along, and what was kept is there still.
            let bytes = unsafe { std::slice::from_raw_parts(pointer, 3) };
            assert_eq!(bytes, [byte; 3]);
        }
        let large = Layout::from_size_align(1 << 20, 16).unwrap();
        for _ in 0..100 {
            // SAFETY: the layout is not empty.
            let pointer = unsafe { heap.alloc(large) };
            // SAFETY: it came from this heap with this layout.
            unsafe { heap.dealloc(pointer, large) };
        }
    }

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
