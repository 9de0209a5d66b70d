//! A lock for what takes some instructions.

use std::{
    cell::UnsafeCell,
    hint,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// How often we look before we let others go first: whoever holds it may have lost the processor.
const LOOKS: u32 = 100;

/// Something that one thread at a time may use, for a moment.
pub(super) struct Spin<T> {
    held: AtomicBool,
    what: UnsafeCell<T>,
}

/// Leave to use it.
pub(super) struct Held<'a, T>(&'a Spin<T>);

// SAFETY: only whoever holds the lock reaches what is in it.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub(super) const fn new(what: T) -> Self {
        Self { held: AtomicBool::new(false), what: UnsafeCell::new(what) }
    }

    pub(super) fn lock(&self) -> Held<'_, T> {
        let mut looks = 0;
        while self.held.swap(true, Ordering::Acquire) {
            looks += 1;
            if looks < LOOKS {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        Held(self)
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is ours.
        unsafe { &*self.0.what.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours, and so is this leave to use it.
        unsafe { &mut *self.0.what.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Spin;

    #[test]
    fn one_thread_at_a_time_has_it() {
        let sum = Spin::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *sum.lock() += 1));
            }
        });
        assert_eq!(*sum.lock(), 40_000);
    }
}
