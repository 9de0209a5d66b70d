//! A file that is made anew and filled from its beginning to its end, on either side of a copy.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags, SeekFrom, ftruncate, openat, seek, unlinkat},
    io::{Errno, write},
};

/// How often somebody else may be quicker who makes the same file.
const TRIES: u32 = 16;

/// A file that is being filled. Runs of zeros become holes: they take no place on a disk.
#[derive(Debug)]
pub struct Filling {
    file: OwnedFd,
    /// Zeros at the end that the file does not have yet.
    hole: u64,
}

impl Filling {
    /// A new file called `name` in `dir`, in the place of whatever is there but a directory. A link is
    /// replaced, and never followed.
    ///
    /// Of two who do this at once, each fills a file of its own, and one of the two keeps the name.
    pub fn fresh(dir: impl AsFd, name: &[u8]) -> Result<Self, Errno> {
        let new = OFlags::CREATE | OFlags::EXCL;
        let flags = OFlags::WRONLY | new | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut made = Err(Errno::EXIST);
        for _ in 0..TRIES {
            clear(&dir, name)?;
            made = openat(&dir, name, flags, Mode::from_raw_mode(0o600));
            if !matches!(made, Err(Errno::EXIST)) {
                break;
            }
        }
        Ok(Self { file: made?, hole: 0 })
    }

    /// Adds `bytes`.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if is_zero(bytes) {
            self.hole += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Ok(());
        }
        self.skip()?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match write(&self.file, rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The file, as long as what was added.
    pub fn finish(mut self) -> Result<OwnedFd, Errno> {
        if 0 < self.hole {
            let end = self.skip()?;
            ftruncate(&self.file, end)?;
        }
        Ok(self.file)
    }

    /// Goes past the zeros, and says where that is.
    fn skip(&mut self) -> Result<u64, Errno> {
        let hole = i64::try_from(std::mem::take(&mut self.hole)).map_err(|_| Errno::FBIG)?;
        seek(&self.file, SeekFrom::Current(hole))
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROS.len()).all(|it| ZEROS.get(..it.len()) == Some(it))
}

/// Takes away what is in the way of a file; never what a link leads to.
pub fn clear(dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
