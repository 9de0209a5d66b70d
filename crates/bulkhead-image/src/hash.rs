//! Digests of what passes through.

use std::io::{self, Read};

use bulkhead_spec::Digest;
use sha2::{Digest as _, Sha256};

/// A reader that knows the digest and the length of what was read through it.
pub(crate) struct Hashed<R> {
    inner: R,
    state: Sha256,
    count: u64,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, state: Sha256::new(), count: 0 }
    }

    /// Reads what is left, and tells the digest of everything.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest::new(self.state.finalize().into()), self.count))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.state.update(buffer.get(..count).unwrap_or_default());
        self.count += count as u64;
        Ok(count)
    }
}

/// The digest of `bytes`.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}
