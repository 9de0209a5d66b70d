//! Small pieces of memory, which are handed out and taken back in a few instructions.
//!
//! A start allocates thousands of them, and what looks for the best place for each takes a third of
//! all that the program does. Here a size is rounded up, and pieces of one size that were given back
//! wait in a list. They stay with that size for good, which is why large ones are not served here.

use std::{alloc::Layout, ptr};

use super::spans::Spans;

/// Sizes are multiples of this, and so are addresses.
const STEP: usize = 16;

/// How many sizes there are.
const CLASSES: usize = 32;

/// What pieces are cut from.
const BLOCK: usize = 8 * 1024;

/// A size of pieces: so many steps, and one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

/// The size of pieces for `layout`, if it is a small one.
pub(super) fn class(layout: Layout) -> Option<Class> {
    let steps = layout.size().wrapping_sub(1) / STEP;
    (steps < CLASSES && layout.align() <= STEP).then_some(Class(steps))
}

/// A piece that was given back.
struct Free {
    next: *mut Free,
}

/// The pieces that nobody has.
pub(super) struct Small {
    /// The first of each size that was given back.
    free: [*mut Free; CLASSES],
    /// What was not cut yet.
    rest: *mut u8,
    length: usize,
    /// Where that lies which is left as it is, whoever gives it back.
    left: Spans,
}

// SAFETY: what it points to is nobody else's.
unsafe impl Send for Small {}

impl Small {
    /// None yet.
    pub(super) const fn none() -> Self {
        let (free, rest) = ([ptr::null_mut(); CLASSES], ptr::null_mut());
        Self { free, rest, length: 0, left: Spans::NONE }
    }

    /// None yet, beside pieces that are left as they are.
    pub(super) fn beside(left: &Spans) -> Self {
        Self { left: *left, ..Self::none() }
    }

    /// A piece of that size, null if there is none; `more` gets memory of a size and alignment.
    pub(super) fn take(
        &mut self,
        class: Class,
        more: impl FnOnce(usize, usize) -> *mut u8,
    ) -> *mut u8 {
        let Some(first) = self.free.get_mut(class.0) else { return ptr::null_mut() };
        let piece = *first;
        if !piece.is_null() {
            // SAFETY: it was given back, and is nobody else's.
            *first = unsafe { (*piece).next };
            return piece.cast();
        }
        let size = (class.0 + 1) * STEP;
        if self.length < size {
            let block = more(BLOCK, STEP);
            if block.is_null() {
                return block;
            }
            // What is left of the one before is lost, which is less than the largest piece.
            (self.rest, self.length) = (block, BLOCK);
        }
        let piece = self.rest;
        self.rest = piece.wrapping_add(size);
        self.length -= size;
        piece
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// It must have been taken with this class, and nobody may use it any more.
    pub(super) unsafe fn give(&mut self, piece: *mut u8, class: Class) {
        if self.left.contains(piece.addr()) {
            return;
        }
        if let Some(first) = self.free.get_mut(class.0) {
            #[expect(
                clippy::cast_ptr_alignment,
                reason = "all of them lie at multiples of a step"
            )]
            let piece = piece.cast::<Free>();
            // SAFETY: it is at least so long, so aligned, and ours again.
            unsafe { piece.write(Free { next: *first }) };
            *first = piece;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{alloc::Layout, collections::BTreeSet};

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn sizes_are_rounded_up_and_large_or_odd_ones_are_none() {
        let of = |size, align| class(layout(size, align)).map(|it| it.0);
        assert_eq!([of(1, 1), of(16, 16), of(17, 8), of(512, 1)], [0, 0, 1, 31].map(Some));
        assert_eq!([of(513, 1), of(0, 1), of(8, 32)], [None; 3]);
    }

    #[test]
    fn pieces_are_apart_and_those_given_back_are_handed_out_again() {
        let mut blocks: Vec<Box<[u128]>> = Vec::new();
        let mut small = Small::none();
        let mut taken = BTreeSet::new();
        let class = class(layout(40, 8)).unwrap();
        let mut take = |small: &mut Small| {
            small.take(class, |size, _| {
                blocks.push(vec![0; size / 16].into());
                blocks.last_mut().unwrap().as_mut_ptr().cast()
            })
        };
        for _ in 0..1000 {
            let piece = take(&mut small);
            assert!(piece.addr().is_multiple_of(STEP));
            assert!(
                taken.range(piece.addr().saturating_sub(47)..piece.addr() + 48).count() == 0
            );
            taken.insert(piece.addr());
        }
        let piece = take(&mut small);
        // SAFETY: it was taken with this class, and nobody uses it.
        unsafe { small.give(piece, class) };
        assert_eq!(take(&mut small), piece);
        assert!(Small::none().take(class, |_, _| ptr::null_mut()).is_null());
    }
}
