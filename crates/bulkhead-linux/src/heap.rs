//! Memory for programs that start often and end soon.
//!
//! The C library that we link asks the kernel for memory page by page, and each page is mapped when
//! it is first touched. Together that takes a noticeable part of a start.

mod pages;
mod small;
mod spans;
mod spin;

use std::{
    alloc::{GlobalAlloc, Layout},
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use dlmalloc::Dlmalloc;

use self::{
    pages::{First, Pages},
    small::Small,
    spans::Spans,
    spin::Spin,
};

/// An allocator for a whole program.
///
/// Whoever holds the small pieces may ask for the large ones, never the other way round.
pub struct Heap {
    small: Spin<Small>,
    large: Mutex<Large>,
}

struct Large {
    own: Dlmalloc<Pages>,
    /// Where that lies which was left.
    left: Spans,
}

impl Heap {
    /// One that gets `bytes` mapped, some pages at a time, after its first few.
    pub const fn new(bytes: usize) -> Self {
        let own = Dlmalloc::new_with_allocator(Pages::new(bytes, First::Touched));
        Self {
            small: Spin::new(Small::none()),
            large: Mutex::new(Large { own, left: Spans::NONE }),
        }
    }

    /// Begins anew with `bytes`, mapped, and leaves everything that was allocated as it is, for good.
    ///
    /// For a copy of a process: its memory is that of the original until it is written to, and to
    /// allocate and free here and there would copy it page by page. One that lies in too many places
    /// goes on as it is.
    pub fn renew(&self, bytes: usize) {
        let mut small = self.small.lock();
        let mut large = self.large();
        let Some(left) = large.left.and(&large.own.allocator().spans.get()) else { return };
        large.left = left;
        // The one before does not give its pages back.
        large.own = Dlmalloc::new_with_allocator(Pages::new(bytes, First::Asked));
        *small = Small::beside(&left);
    }

    fn large(&self) -> MutexGuard<'_, Large> {
        // Nothing in there panics halfway.
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves a piece to one of another size.
    ///
    /// # Safety
    /// As for [`GlobalAlloc::realloc`].
    unsafe fn moved(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        // SAFETY: the caller vouches for the size, which is not zero.
        let fresh = unsafe { self.alloc(wanted) };
        if !fresh.is_null() {
            // SAFETY: both are that long at least, and apart.
            unsafe { ptr::copy_nonoverlapping(pointer, fresh, layout.size().min(size)) };
            // SAFETY: the caller vouches that it is ours, with this layout.
            unsafe { self.dealloc(pointer, layout) };
        }
        fresh
    }
}

// SAFETY: small pieces and dlmalloc are memory that is apart from all other, aligned as asked, until
// it is freed; the locks let one thread in at a time. Neither panics.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(class) = small::class(layout) {
            return self.small.lock().take(class, |size, align| {
                // SAFETY: both are constants of a layout.
                unsafe { self.large().own.malloc(size, align) }
            });
        }
        // SAFETY: the caller vouches for the layout.
        unsafe { self.large().own.malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(class) = small::class(layout) {
            // SAFETY: the caller vouches that it is of this layout and so of this class, and that
            // nobody uses it any more.
            return unsafe { self.small.lock().give(pointer, class) };
        }
        let mut large = self.large();
        if !large.left.contains(pointer.addr()) {
            // SAFETY: the caller vouches that it is ours, with this layout.
            unsafe { large.own.free(pointer, layout.size(), layout.align()) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if small::class(layout).is_none() {
            // SAFETY: the caller vouches for the layout.
            return unsafe { self.large().own.calloc(layout.size(), layout.align()) };
        }
        // SAFETY: as above.
        let pointer = unsafe { self.alloc(layout) };
        if !pointer.is_null() {
            // SAFETY: it is that long.
            unsafe { pointer.write_bytes(0, layout.size()) };
        }
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align(size, layout.align()).ok().and_then(small::class);
        match (small::class(layout), wanted) {
            (None, None) => {
                let mut large = self.large();
                if !large.left.contains(pointer.addr()) {
                    // SAFETY: the caller vouches that it is ours, with this layout.
                    return unsafe {
                        large.own.realloc(pointer, layout.size(), layout.align(), size)
                    };
                }
            }
            // It has room for that.
            (was, is) if was == is => return pointer,
            (_, _) => {}
        }
        // SAFETY: the caller vouches for all of it.
        unsafe { self.moved(pointer, layout, size) }
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
