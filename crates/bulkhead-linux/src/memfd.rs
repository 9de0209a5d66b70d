//! A program kept in memory that nobody can change.

use std::{fs::File, io, io::Write as _, os::fd::OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::sys;

/// The smallest page there is.
const PAGE: usize = 4096;

/// An empty file in memory, to be filled and [sealed](Unsealed::seal).
#[derive(Debug)]
pub struct Unsealed(File);

impl Unsealed {
    /// Makes the file.
    pub fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(Self(File::from(memfd_create(c"bulkhead-guest", flags)?)))
    }

    /// The file itself, while it is still being written.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Writes `program` and takes away, for good, every way to change it.
    ///
    /// Without the seals a sandbox could rewrite the guest through `/proc/1/exe`
    /// (CVE-2019-5736).
    pub fn seal(mut self, program: &[u8]) -> io::Result<OwnedFd> {
        map_in(program);
        self.0.write_all(program)?;
        let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&self.0, all)?;
        Ok(self.0.into())
    }
}

/// Has all pages of `bytes` mapped at once. Touched one after the other, each sixteen of them would
/// be a fault of its own, together a quarter of the time that writing them takes.
///
/// Only a hint: a kernel that does not know it (before 5.14), or has larger pages, does without.
fn map_in(bytes: &[u8]) {
    let range = bytes.as_ptr_range();
    let start = range.start.addr() / PAGE * PAGE;
    let length = range.end.addr().saturating_sub(start);
    let advice = libc::MADV_POPULATE_READ.unsigned_abs() as usize;
    // SAFETY: reading what a reference points to changes nothing, nor does the rest of its pages.
    unsafe { sys::call(libc::SYS_madvise, [start, length, advice, 0, 0]) }.unwrap_or_default();
}
