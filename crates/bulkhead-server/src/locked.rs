//! A lock that is taken whatever became of those who held it before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` guards. A task that broke while it held it left something whole: nothing here is
/// changed in steps.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
