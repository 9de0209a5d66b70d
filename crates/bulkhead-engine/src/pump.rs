//! Carries a program's streams to its caller, counts them and keeps their ends.
//!
//! Invariant: a program never waits for us to make room in memory; what is kept is bounded, and
//! what its caller does not take in time only slows the program itself.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bulkhead_backends::Streams;
use bulkhead_spec::{Bytes, Stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Notify,
    task::JoinHandle,
};

/// The most that is read at once.
const CHUNK: usize = 64 * 1024;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The streams of one program, on their way.
pub(crate) struct Pumps {
    stdin: Option<JoinHandle<()>>,
    stdout: JoinHandle<Stream>,
    stderr: Option<JoinHandle<Stream>>,
    meter: Arc<Meter>,
}

/// What both output streams have carried together.
struct Meter {
    bytes: AtomicU64,
    limit: Option<Bytes>,
    exceeded: Notify,
}

/// The caller's ends of the streams, and how much to keep of each.
pub(crate) struct Ends {
    pub(crate) stdin: Option<Reader>,
    pub(crate) stdout: Option<Writer>,
    pub(crate) stderr: Option<Writer>,
    pub(crate) keep: Bytes,
}

impl Pumps {
    pub(crate) fn start(streams: Streams, ends: Ends, limit: Option<Bytes>) -> Self {
        let meter =
            Arc::new(Meter { bytes: AtomicU64::new(0), limit, exceeded: Notify::new() });
        let half = usize::try_from(ends.keep.0 / 2).unwrap_or(usize::MAX);
        let pump = |from, to| tokio::spawn(carry(from, to, half, Arc::clone(&meter)));
        let stdin = match (ends.stdin, streams.stdin) {
            (Some(from), Some(to)) => Some(tokio::spawn(feed(from, to))),
            (None, _) | (_, None) => None,
        };
        let stdout = pump(streams.stdout, ends.stdout);
        let stderr = streams.stderr.map(|from| pump(from, ends.stderr));
        Self { stdin, stdout, stderr, meter }
    }

    /// Returns when the program has printed more than its limit; never if it has none.
    pub(crate) async fn exceeded(&self) -> Bytes {
        match self.meter.limit {
            Some(limit) => {
                self.meter.exceeded.notified().await;
                limit
            }
            None => std::future::pending().await,
        }
    }

    /// What was kept of output and complaints, once both have ended.
    ///
    /// To be called after the sandbox is gone: only then can no straggler hold the pipes open.
    pub(crate) async fn finish(self) -> [Stream; 2] {
        if let Some(stdin) = self.stdin {
            stdin.abort();
        }
        // A pump that panicked kept nothing; the program's ending is known all the same.
        let stdout = self.stdout.await.unwrap_or_default();
        let stderr = match self.stderr {
            Some(stderr) => stderr.await.unwrap_or_default(),
            None => Stream::default(),
        };
        [stdout, stderr]
    }
}

/// Passes the caller's input on until either side ends.
async fn feed(mut from: Reader, mut to: Writer) {
    // A program may end, or close its input, before it has read everything; so may the caller.
    tokio::io::copy(&mut from, &mut to).await.map(drop).unwrap_or_default();
    to.shutdown().await.unwrap_or_default();
}

async fn carry(
    mut from: Reader,
    mut to: Option<Writer>,
    half: usize,
    meter: Arc<Meter>,
) -> Stream {
    let mut kept = Kept { half, ..Kept::default() };
    let mut chunk = vec![0; CHUNK];
    // A terminal whose other side is gone reads as an error; so does a pipe never.
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let bytes = chunk.get(..count).unwrap_or_default();
        kept.add(bytes);
        meter.add(bytes.len());
        if let Some(writer) = &mut to {
            let written = async {
                writer.write_all(bytes).await?;
                writer.flush().await
            };
            if written.await.is_err() {
                // Nobody listens any more: closing our end tells the program so (SIGPIPE).
                break;
            }
        }
    }
    kept.into_stream()
}

impl Meter {
    fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let total = self.bytes.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        if self.limit.is_some_and(|limit| limit.0 < total) {
            self.exceeded.notify_one();
        }
    }
}

/// The first and the last bytes of a stream.
#[derive(Default)]
struct Kept {
    half: usize,
    bytes: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half)..).unwrap_or_default();
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    fn into_stream(self) -> Stream {
        let kept = u64::try_from(self.head.len() + self.tail.len()).unwrap_or(u64::MAX);
        let truncated = kept < self.bytes;
        Stream { bytes: self.bytes, truncated, head: self.head, tail: self.tail.into() }
    }
}
