//! Carries a program's streams to its caller, counts them and keeps their ends.
//!
//! Invariant: a program never waits for us to make room in memory; what is kept is bounded, and
//! what its caller does not take in time only slows the program itself.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bulkhead_backends::Streams;
use bulkhead_spec::{Bytes, Stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Notify,
    task::JoinSet,
    time::timeout,
};

/// As much as is read at once: little at first, for most say little, and every page that is touched
/// for the first time is waited for.
const FIRST_CHUNK: usize = 2 * 1024;
const CHUNK: usize = 64 * 1024;
/// How long a caller may take for what a program said before it was stopped.
const BRIEFLY: Duration = Duration::from_millis(250);

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Where one stream of a program is passed on to.
#[async_trait::async_trait]
pub(crate) trait Sink: Send {
    /// Takes all of `bytes`, when there is room for them. An error says that nobody listens.
    async fn take(&mut self, bytes: &[u8]) -> io::Result<()>;
}

#[async_trait::async_trait]
impl Sink for Writer {
    async fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await?;
        self.flush().await
    }
}

/// The streams of one program, on their way. Dropping it lets go of both ends of each.
pub(crate) struct Pumps {
    input: JoinSet<()>,
    output: JoinSet<Reader>,
    stdout: Arc<Mutex<Kept>>,
    stderr: Arc<Mutex<Kept>>,
    meter: Arc<Meter>,
}

/// What both output streams have carried together.
struct Meter {
    bytes: AtomicU64,
    limit: Option<Bytes>,
    full: AtomicBool,
    exceeded: Notify,
}

/// The caller's ends of the streams, and how much to keep of each.
pub(crate) struct Ends {
    pub(crate) stdin: Option<Reader>,
    pub(crate) stdout: Option<Box<dyn Sink>>,
    pub(crate) stderr: Option<Box<dyn Sink>>,
    pub(crate) keep: Bytes,
}

/// How long to wait for a caller to take the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as it takes: the program is done, and all that it said is wanted.
    Endless,
    /// Hardly: the program was stopped, and nobody may hold that up.
    Brief,
}

impl Pumps {
    pub(crate) fn start(streams: Streams, ends: Ends, limit: Option<Bytes>) -> Self {
        let half = usize::try_from(ends.keep.0 / 2).unwrap_or(usize::MAX);
        let kept = || Arc::new(Mutex::new(Kept { half, ..Kept::default() }));
        let mut pumps = Self {
            input: JoinSet::new(),
            output: JoinSet::new(),
            stdout: kept(),
            stderr: kept(),
            meter: Arc::new(Meter::new(limit)),
        };
        if let (Some(from), Some(to)) = (ends.stdin, streams.stdin) {
            pumps.input.spawn(feed(from, to));
        }
        let kept = Arc::clone(&pumps.stdout);
        pumps.output.spawn(carry(streams.stdout, ends.stdout, kept, pumps.meter.clone()));
        if let Some(from) = streams.stderr {
            let kept = Arc::clone(&pumps.stderr);
            pumps.output.spawn(carry(from, ends.stderr, kept, pumps.meter.clone()));
        }
        pumps
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

    /// What was kept of output and complaints, and their limit if they went beyond it.
    ///
    /// To be called after the sandbox is gone: only then can no straggler hold the pipes open.
    pub(crate) async fn finish(mut self, patience: Patience) -> ([Stream; 2], Option<Bytes>) {
        self.input.abort_all();
        let carried = async {
            // A pump that panicked has kept what it had; the program's ending is known all the same.
            while self.output.join_next().await.is_some() {}
        };
        match patience {
            Patience::Endless => carried.await,
            Patience::Brief => timeout(BRIEFLY, carried).await.unwrap_or_default(),
        }
        let exceeded = self.meter.limit.filter(|_| self.meter.full.load(Ordering::Relaxed));
        ([taken(&self.stdout), taken(&self.stderr)], exceeded)
    }
}

fn taken(kept: &Mutex<Kept>) -> Stream {
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner)).into_stream()
}

/// Passes the caller's input on until either side ends.
async fn feed(mut from: Reader, mut to: Writer) {
    // A program may end, or close its input, before it has read everything; so may the caller.
    tokio::io::copy(&mut from, &mut to).await.map(drop).unwrap_or_default();
    to.shutdown().await.unwrap_or_default();
}

/// Passes the program's output on until either side ends, or the limit is reached: then the program
/// waits with the rest until it is stopped.
async fn carry(
    mut from: Reader,
    mut to: Option<Box<dyn Sink>>,
    kept: Arc<Mutex<Kept>>,
    meter: Arc<Meter>,
) -> Reader {
    let mut chunk = Vec::with_capacity(FIRST_CHUNK);
    // A terminal whose other side is gone reads as an error; so does a pipe never.
    while let Ok(count @ 1..) = from.read_buf(&mut chunk).await {
        let room = meter.add(count);
        let bytes = chunk.get(..room).unwrap_or_default();
        kept.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
        if let Some(sink) = &mut to
            && sink.take(bytes).await.is_err()
        {
            // Nobody listens any more: closing our end tells the program so (SIGPIPE).
            return Box::new(tokio::io::empty());
        }
        if room < count {
            break;
        }
        let filled = chunk.len() == chunk.capacity();
        chunk.clear();
        if filled {
            // Not filled with zeros first.
            chunk.reserve(CHUNK);
        }
    }
    from
}

impl Meter {
    fn new(limit: Option<Bytes>) -> Self {
        let (bytes, full) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { bytes, limit, full, exceeded: Notify::new() }
    }

    /// How much of `count` more bytes is within the limit.
    fn add(&self, count: usize) -> usize {
        let Some(limit) = self.limit else { return count };
        let more = u64::try_from(count).unwrap_or(u64::MAX);
        let before = self.bytes.fetch_add(more, Ordering::Relaxed);
        let room = limit.0.saturating_sub(before);
        if more <= room {
            return count;
        }
        self.full.store(true, Ordering::Relaxed);
        self.exceeded.notify_one();
        usize::try_from(room).unwrap_or(count).min(count)
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
