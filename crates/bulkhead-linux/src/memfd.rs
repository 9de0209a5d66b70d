//! A program kept in memory that nobody can change.

use std::{fs::File, io, io::Write as _, os::fd::OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

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
        self.0.write_all(program)?;
        let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&self.0, all)?;
        Ok(self.0.into())
    }
}
