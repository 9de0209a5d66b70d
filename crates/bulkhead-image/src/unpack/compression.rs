//! Streams that may be compressed, and how much may come out of them.

use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use super::Caps;

/// A stream as it was before it was compressed, and how much of the input was read.
pub(crate) struct Compressed<R: Read> {
    inner: Box<Inner<R>>,
}

type Counted<R> = io::Chain<Cursor<Vec<u8>>, BufReader<Counter<R>>>;

#[expect(clippy::large_enum_variant, reason = "there is one for each layer, in a box")]
enum Inner<R: Read> {
    Plain(Counted<R>),
    Gzip(flate2::read::MultiGzDecoder<Counted<R>>),
    Zstd(Zstd<R>),
}

/// Frame after frame: some builders write several.
struct Zstd<R: Read> {
    frame: Option<Frame<R>>,
}

type Frame<R> = ruzstd::decoding::StreamingDecoder<Counted<R>, ruzstd::decoding::FrameDecoder>;

struct Counter<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

impl<R: Read> Compressed<R> {
    /// Looks at the first bytes to see how the rest is compressed, whatever its label says.
    pub(crate) fn open(inner: R) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(1 << 16, Counter { inner, count: 0 });
        let mut magic = Vec::with_capacity(4);
        while magic.len() < 4 {
            let Some(byte) = input.fill_buf()?.first().copied() else { break };
            magic.push(byte);
            input.consume(1);
        }
        let whole = |magic: Vec<u8>, input| Cursor::new(magic).chain(input);
        let inner = match magic.as_slice() {
            [0x1f, 0x8b, ..] => {
                Inner::Gzip(flate2::read::MultiGzDecoder::new(whole(magic, input)))
            }
            [0x28, 0xb5, 0x2f, 0xfd] => Inner::Zstd(Zstd::open(whole(magic, input))?),
            _ => Inner::Plain(whole(magic, input)),
        };
        Ok(Self { inner: Box::new(inner) })
    }

    /// How much of the input was read.
    pub(crate) fn consumed(&self) -> u64 {
        let counted = match &*self.inner {
            Inner::Plain(input) => Some(input),
            Inner::Gzip(decoder) => Some(decoder.get_ref()),
            Inner::Zstd(decoder) => decoder.frame.as_ref().map(Frame::get_ref),
        };
        counted.map_or(u64::MAX, |input| input.get_ref().1.get_ref().count)
    }
}

impl<R: Read> Read for Compressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut *self.inner {
            Inner::Plain(input) => input.read(buffer),
            Inner::Gzip(decoder) => decoder.read(buffer),
            Inner::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

impl<R: Read> Zstd<R> {
    fn open(input: Counted<R>) -> io::Result<Self> {
        let frame = Frame::new(input).map_err(unreadable)?;
        Ok(Self { frame: Some(frame) })
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let count = frame.read(buffer)?;
            if count != 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(ended) = self.frame.take() else { return Ok(0) };
            let mut input = ended.into_inner();
            if input.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.frame = Some(Frame::new(input).map_err(unreadable)?);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn unreadable(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// Lets through as much as the caps allow.
pub(crate) struct Limited<R: Read> {
    inner: Compressed<R>,
    count: u64,
    caps: Caps,
}

impl<R: Read> Limited<R> {
    pub(crate) fn new(inner: Compressed<R>, caps: Caps) -> Self {
        Self { inner, count: 0, caps }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if self.caps.bytes < self.count {
            return refused("it unpacks to more than is allowed");
        }
        let most = self.inner.consumed().saturating_mul(self.caps.ratio);
        if self.caps.unasked.max(most) < self.count {
            return refused("it unpacks to many times its size, as nothing honest does");
        }
        Ok(count)
    }
}
