//! Out of a room.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::FileTypeExt as _},
    path::{Path, PathBuf},
};

use bulkhead_engine::rooms::{
    Client, ClientError, Download,
    tree::{Bounds, Facts, FileError, Kind, Received, receive},
};
use bulkhead_spec::escape_bytes;
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

use super::{
    about, is_copied, look, on_host,
    place::{Inside, name},
    progress::Bar,
    tell_copied, tell_skipped,
};
use crate::{args::rooms::CpArgs, codes::Code, failure::Failure, printer::Printer};

/// As much as is on its way at once.
const CHUNK: usize = 64 << 10;

/// Writes the bytes of a file to stdout.
pub(super) async fn to_stdout(
    client: &Client,
    inside: &Inside,
    args: &CpArgs,
) -> Result<(), Failure> {
    let path = inside.whole(client).await?;
    let mut download =
        client.read(&path, 0, None).await.map_err(|error| about(&inside.path, &error))?;
    // Nothing else is to be done until it is taken, so this may wait.
    let mut stdout = io::stdout().lock();
    let mut came = 0;
    while let Some(bytes) =
        download.next().await.map_err(|error| about(&inside.path, &error))?
    {
        came += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if args.max_size.0 < came {
            let error = FileError::TooMuch { what: "bytes", most: args.max_size.0 };
            return Err(on_host("stopped writing to stdout".to_owned(), &error));
        }
        match io::Write::write_all(&mut stdout, &bytes) {
            Ok(()) => {}
            // A reader that has enough is no trouble.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(unwritten(error)),
        }
    }
    io::Write::flush(&mut stdout).map_err(unwritten)
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(Code::System, "could not write to stdout").because(error)
}

/// A copy to a path of the host's.
pub(super) struct Copy<'a> {
    pub(super) client: &'a Client,
    pub(super) inside: &'a Inside,
    pub(super) args: &'a CpArgs,
    pub(super) printer: &'a Printer,
}

impl Copy<'_> {
    async fn to(&self, path: &Path) -> Result<(), Failure> {
        let from = self.inside.whole(self.client).await?;
        if let Some(facts) = look(self.client, &from).await? {
            is_copied(self.inside, &facts)?;
        }
        let download = self.client.pack(&from).await;
        let download = download.map_err(|error| about(&self.inside.path, &error))?;
        let top = destination(&from, &download.facts, path)?;
        if download.facts.kind == Kind::Dir {
            return self.take(download, &top).await.map_err(|it| it.at(&top));
        }
        // Until all is there, what was there stays as it was.
        let part = Part(beside(&top));
        self.take(download, &part.0).await.map_err(|it| it.at(&top))?;
        fs::rename(&part.0, &top).map_err(|error| unmade(&top).because(error))
    }

    /// As [`Self::to`], until somebody wants it to stop; with what the command then says.
    pub(super) async fn to_or_stopped(&self, path: &Path) -> Result<u8, Failure> {
        let failed = |error| Failure::new(Code::System, "could not copy").because(error);
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::select! {
            copied = self.to(path) => copied.map(|()| 0),
            _ = interrupted.recv() => Ok(130),
            _ = terminated.recv() => Ok(143),
        }
    }

    async fn take(&self, download: Download, top: &Path) -> Result<(), Untaken> {
        let facts = download.facts.clone();
        let whole = (facts.kind == Kind::File).then_some(facts.size);
        let mut bar = Bar::new(self.printer, whole);
        let (stream, pumped) = pump(download);
        let bounds = Bounds { bytes: self.args.max_size.0, entries: self.args.max_files };
        let tell = |came: &Received| bar.tell(came.entries, came.bytes);
        let received = receive(stream, top, bounds, tell).await;
        drop(bar);
        match received {
            // The file itself: its directory would have been there.
            Ok(came) if came.skipped.contains(&Vec::new()) => {
                let what = format!("cannot copy `{}`", escape_bytes(&self.inside.path));
                let failure = Failure::new(Code::Room, what);
                Err(Untaken::Room(failure.because("it could not be read to its end")))
            }
            Ok(came) => {
                tell_skipped(&came.skipped, self.printer);
                tell_copied(came.entries, came.bytes, self.printer);
                Ok(())
            }
            Err(FileError::System(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                // Why it ended early is known where it came from.
                let why = pumped.await.ok().and_then(Result::err);
                let why = why.unwrap_or(ClientError::Gone(error));
                Err(Untaken::Room(about(&self.inside.path, &why)))
            }
            Err(error) => Err(Untaken::Host(error)),
        }
    }
}

/// A file that is removed again unless it becomes what it is for.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // What is not there was never made, or has its name.
        fs::remove_file(&self.0).unwrap_or_default();
    }
}

/// Why something did not come out.
enum Untaken {
    /// The host's side did not take it.
    Host(FileError),
    /// The room did not give it.
    Room(Failure),
}

impl Untaken {
    /// When it was to become `top`.
    fn at(self, top: &Path) -> Failure {
        match self {
            Self::Host(error) => on_host(unmade(top).what, &error),
            Self::Room(failure) => failure,
        }
    }
}

type Pumped = JoinHandle<Result<(), ClientError>>;

/// What comes, as a stream; and how it ended.
fn pump(mut download: Download) -> (DuplexStream, Pumped) {
    let (ours, mut theirs) = tokio::io::duplex(CHUNK);
    let pumped = tokio::spawn(async move {
        while let Some(bytes) = download.next().await? {
            if theirs.write_all(&bytes).await.is_err() {
                break;
            }
        }
        theirs.shutdown().await.unwrap_or_default();
        Ok(())
    });
    (ours, pumped)
}

/// Where exactly it goes: into a directory that is there, or to the name itself.
fn destination(from: &[u8], facts: &Facts, to: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| Err(unmade(to).because(why));
    let Ok(there) = fs::metadata(to) else {
        if to.as_os_str().as_bytes().ends_with(b"/") && facts.kind != Kind::Dir {
            return refuse("there is no such directory");
        }
        return Ok(to.to_path_buf());
    };
    let kind = there.file_type();
    if kind.is_dir() {
        return match name(from) {
            Some(name) => Ok(real(&to.join(OsStr::from_bytes(name)))),
            None => Ok(real(to)),
        };
    }
    if facts.kind == Kind::Dir {
        return refuse("a directory cannot replace what is there");
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
        return refuse("what is there is no file");
    }
    Ok(real(to))
}

/// What a link leads to, so that the link stays.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// A name in the same directory that nobody else uses.
fn beside(top: &Path) -> PathBuf {
    let name = top.file_name().unwrap_or_default();
    let short = name.as_bytes().get(..name.len().min(200)).unwrap_or_default();
    let part = [b".", short, format!(".{}.part", std::process::id()).as_bytes()].concat();
    top.with_file_name(OsStr::from_bytes(&part))
}

fn unmade(top: &Path) -> Failure {
    let path = escape_bytes(top.as_os_str().as_bytes());
    Failure::new(Code::Room, format!("could not write `{path}`"))
}
