//! How a program begins that does without the preparations of the standard library.
//!
//! They take as long as a handful of mounts, and whoever starts a sandbox waits for its guest.

use std::ffi::{CStr, c_char, c_int};

use rustix::io::Errno;

/// Has this process hear of a reader that is gone by an error and not by a signal, as the standard
/// library would.
pub fn outlive_readers() -> Result<(), Errno> {
    // SAFETY: to ignore a signal needs no handler.
    match unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// The words that this process was started with, the first of which is its name.
///
/// # Safety
/// Both must be what the system gave to `main`.
pub unsafe fn words(
    count: c_int,
    words: *const *const c_char,
) -> impl Iterator<Item = &'static CStr> {
    let count = usize::try_from(count).unwrap_or_default();
    // SAFETY: the caller vouches that there are so many, which stay as long as the process.
    let words = unsafe { std::slice::from_raw_parts(words, count) };
    // SAFETY: as above; each is a C string.
    words.iter().map(|word| unsafe { CStr::from_ptr(*word) })
}
