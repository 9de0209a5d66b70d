//! Records out of a sandbox, checked.

use bulkhead_guest::{
    protocol::files::{MOST_RECORD, Record},
    wire::{Frame, Inbox},
};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::FileError;

/// The longest name that the kernel takes.
const LONGEST: usize = 4096;
/// As much as is read at once.
const CHUNK: usize = 32 << 10;

/// Reads records from a stream of a [`super::Reading`].
///
/// # Guarantees
/// Every name is relative, without `.`, `..`, empty parts and NUL; what breaks that is an error.
pub struct Records<R> {
    stream: R,
    inbox: Inbox,
    chunk: Vec<u8>,
}

/// What comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Record(Record),
    /// Bytes of the file whose record came before.
    Bytes(Vec<u8>),
}

impl<R: AsyncRead + Unpin> Records<R> {
    /// Of this stream.
    pub fn new(stream: R) -> Self {
        Self { stream, inbox: Inbox::new(MOST_RECORD), chunk: Vec::new() }
    }

    /// The next one; `None` at the end of the stream.
    ///
    /// # Cancellation
    /// May be called again.
    pub async fn next(&mut self) -> Result<Option<Item>, FileError> {
        loop {
            let broken = |_| FileError::Hostile("a record that is none");
            match self.inbox.frame::<Record>().map_err(broken)? {
                Some(Frame::Message(record)) => {
                    check(&record)?;
                    return Ok(Some(Item::Record(record)));
                }
                Some(Frame::Data { bytes, .. }) => {
                    return Ok(Some(Item::Bytes(bytes.to_vec())));
                }
                None => {}
            }
            self.chunk.resize(CHUNK, 0);
            let count = self.stream.read(&mut self.chunk).await?;
            if count == 0 {
                return Ok(None);
            }
            self.inbox.push(self.chunk.get(..count).unwrap_or_default());
        }
    }
}

fn check(record: &Record) -> Result<(), FileError> {
    let fine = match record {
        Record::Entry { path, facts } => {
            let text = facts.target.as_deref().unwrap_or_default();
            is_below(path) && text.len() <= LONGEST && !text.contains(&0)
        }
        Record::Skipped { path, .. } | Record::Changed { path, .. } => is_below(path),
        Record::FileEnd | Record::Overflow | Record::End => true,
    };
    if fine { Ok(()) } else { Err(FileError::Hostile("a name that leads elsewhere")) }
}

/// Whether `path` stays below where it starts, or is that itself.
fn is_below(path: &[u8]) -> bool {
    let part = |it: &[u8]| !it.is_empty() && it != b"." && it != b"..";
    let parts = path.is_empty() || path.split(|it| *it == b'/').all(part);
    parts && path.len() <= LONGEST && !path.contains(&0)
}
