//! The members of a tar stream, one by one, with bounds on everything that is kept in memory.
//!
//! Not the `tar` crate's own iteration: it reads long names and extensions whole, however long
//! they claim to be.

use std::io::{self, Read};

/// The longest path that the kernel takes.
const LONGEST_PATH: u64 = 4096;
/// Extensions of one member: names, times, attributes.
const LONGEST_EXTENSION: u64 = 1 << 20;
const BLOCK: usize = 512;

/// One member, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// Seconds since the epoch.
    pub(crate) modified: i64,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    Device,
    /// A file with holes, or something that nobody packs into an image.
    Unknown,
}

/// Walks over a tar stream.
pub(crate) struct Members<R> {
    inner: R,
    /// Bytes of content of the last member that were not read yet.
    left: u64,
    /// Zeros that fill its last block.
    padding: u64,
}

/// Names and numbers that come before the header that they belong to.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<i64>,
    sparse: bool,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, left: 0, padding: 0 }
    }

    /// The next member; its content can be read until this is called again.
    pub(crate) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut extensions = Extensions::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            self.expect(header.entry_size()?)?;
            match header.entry_type().as_byte() {
                b'L' => extensions.path = Some(self.name()?),
                b'K' => extensions.link = Some(self.name()?),
                b'x' => extensions.read(&self.kept(LONGEST_EXTENSION)?)?,
                // About the archive as a whole: no builder of images means anything by it.
                b'g' => {}
                kind => return self.member(&header, kind, extensions).map(Some),
            }
        }
    }

    /// Reads the rest of the last member's content.
    pub(crate) fn content(&mut self) -> Content<'_, R> {
        Content(self)
    }

    /// The stream, to be read to its end.
    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    fn member(
        &mut self,
        header: &tar::Header,
        kind: u8,
        found: Extensions,
    ) -> io::Result<Member> {
        if let Some(size) = found.size {
            self.expect(size)?;
        }
        let path = found.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let named = || header.link_name_bytes().map(std::borrow::Cow::into_owned);
        let link = found.link.or_else(named).unwrap_or_default();
        let kind = match kind {
            _ if found.sparse => Kind::Unknown,
            // A directory by the rules of old, when only its name said so.
            b'0' | b'7' | 0 if path.ends_with(b"/") => Kind::Directory,
            b'0' | b'7' | 0 => Kind::File,
            b'5' => Kind::Directory,
            b'2' => Kind::Symlink,
            b'1' => Kind::HardLink,
            b'6' => Kind::Fifo,
            b'3' | b'4' => Kind::Device,
            _ => Kind::Unknown,
        };
        let modified = found.modified.unwrap_or_else(|| {
            header.mtime().ok().and_then(|it| i64::try_from(it).ok()).unwrap_or_default()
        });
        Ok(Member { path, link, kind, mode: header.mode()?, size: self.left, modified })
    }

    fn expect(&mut self, size: u64) -> io::Result<()> {
        // Larger than anything there is, and a sum of a few does not wrap.
        if 1 << 50 < size {
            return Err(invalid("a size is out of range"));
        }
        self.left = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
        Ok(())
    }

    /// A header; `None` at the end of the archive.
    fn header(&mut self) -> io::Result<Option<tar::Header>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest) {
                // Some writers leave out the blocks of zeros.
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(&block);
        check_sum(&header, &block)?;
        Ok(Some(header))
    }

    fn skip(&mut self) -> io::Result<()> {
        let rest = self.left + self.padding;
        let skipped = io::copy(&mut self.inner.by_ref().take(rest), &mut io::sink())?;
        (self.left, self.padding) = (0, 0);
        if skipped < rest { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn name(&mut self) -> io::Result<Vec<u8>> {
        let mut name = self.kept(LONGEST_PATH)?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn kept(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if most < self.left {
            return Err(invalid("a name or an extension is too long"));
        }
        let mut bytes = Vec::new();
        self.content().read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Members<&std::fs::File> {
    /// Where the content of the last member begins; it is passed over without being read.
    pub(crate) fn jump(&mut self) -> io::Result<u64> {
        use std::io::Seek as _;
        let start = self.inner.stream_position()?;
        let rest = i64::try_from(self.left + self.padding).map_err(io::Error::other)?;
        self.inner.seek_relative(rest)?;
        (self.left, self.padding) = (0, 0);
        Ok(start)
    }
}

/// The content of one member.
pub(crate) struct Content<'a, R>(&'a mut Members<R>);

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.0.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.0.inner.read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.left -= count as u64;
        Ok(count)
    }
}

impl Extensions {
    /// Reads records of the form `LENGTH KEY=VALUE\n`.
    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let wrong = || invalid("an extension is malformed");
            let space = rest.iter().position(|it| *it == b' ').ok_or_else(wrong)?;
            let length: usize = number(rest.get(..space)).ok_or_else(wrong)?;
            let record = rest.get(space + 1..length).ok_or_else(wrong)?;
            let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
            let at = record.iter().position(|it| *it == b'=').ok_or_else(wrong)?;
            let (key, value) = record.split_at_checked(at).ok_or_else(wrong)?;
            self.take(key, value.get(1..).unwrap_or_default())?;
            rest = rest.get(length..).ok_or_else(wrong)?;
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"path" | b"linkpath" if LONGEST_PATH < value.len() as u64 => {
                return Err(invalid("a name is too long"));
            }
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => {
                self.size = number(Some(value));
                self.size.ok_or_else(|| invalid("a size is malformed"))?;
            }
            b"mtime" => {
                let whole = value.split(|it| *it == b'.').next();
                self.modified = number(whole);
            }
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {}
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(bytes: Option<&[u8]>) -> Option<T> {
    std::str::from_utf8(bytes?).ok()?.parse().ok()
}

fn check_sum(header: &tar::Header, block: &[u8; BLOCK]) -> io::Result<()> {
    // The sum is taken with spaces in its own place.
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    if header.cksum()? == sum { Ok(()) } else { Err(invalid("a header is damaged")) }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
