//! Files and ports of a room, from outside.

use std::{convert::Infallible, io};

use bulkhead_backends::guest::files::{Depth, Facts, Notes, Onto, Put};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{
    Answered, Client, ClientError, answer, confused,
    dial::{Inward, Outward},
};
use crate::rooms::{
    frame::{CHUNK, Frame, Lane, read, send},
    protocol::{Answer, FileRequest, Request},
};

/// Bytes on their way out of a room.
pub struct Download {
    /// About what they are.
    pub facts: Facts,
    from: Inward,
    /// While this is open, the shim knows that somebody listens.
    _to: Outward,
}

/// Bytes on their way into a room. Dropped without [`Upload::finish`], they do not count.
pub struct Upload {
    from: Inward,
    to: Outward,
}

/// Something in a directory of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name, from the directory that was listed.
    pub path: Vec<u8>,
    /// What it is.
    pub facts: Facts,
}

impl Client {
    /// What is at `path`, or at what it leads to if links are followed.
    pub async fn stat(&self, path: &[u8], links: Links) -> Answered<Facts> {
        let request = FileRequest::Stat { path: path.into(), follow: links == Links::Follow };
        let answer = self.one(Request::File(request)).await?;
        if let Answer::File { facts } = answer { Ok(facts) } else { Err(confused(&answer)) }
    }

    /// At most `most` entries of a directory, down to `depth`; and whether there are more.
    pub async fn list(
        &self,
        path: &[u8],
        depth: u32,
        most: usize,
    ) -> Answered<(Vec<Named>, bool)> {
        let request = FileRequest::List { path: path.into(), depth, most };
        let answer = self.one(Request::File(request)).await?;
        let Answer::Listing { entries, truncated } = answer else {
            return Err(confused(&answer));
        };
        let entries = entries.into_iter().map(|(path, facts)| Named { path, facts });
        Ok((entries.collect(), truncated))
    }

    /// The bytes of a file from `offset` on.
    pub async fn read(
        &self,
        path: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Answered<Download> {
        self.download(FileRequest::Read { path: path.into(), offset, length }).await
    }

    /// A tree as records.
    pub async fn pack(&self, path: &[u8]) -> Answered<Download> {
        self.download(FileRequest::Pack { path: path.into() }).await
    }

    /// What changes from now on, as records.
    pub async fn watch(&self, path: &[u8], depth: Depth) -> Answered<Download> {
        self.download(FileRequest::Watch { path: path.into(), depth }).await
    }

    /// Writes a file.
    pub async fn write(&self, path: &[u8], put: Put, mode: Option<u32>) -> Answered<Upload> {
        self.upload(FileRequest::Write { path: path.into(), put, mode, notes: None }).await
    }

    /// Writes a file with these notes beside it, and the permissions that it had or 0644.
    pub async fn write_noted(&self, path: &[u8], put: Put, notes: Notes) -> Answered<Upload> {
        let (path, notes) = (path.into(), Some(notes));
        self.upload(FileRequest::Write { path, put, mode: None, notes }).await
    }

    /// Makes what comes as records.
    pub async fn unpack(&self, path: &[u8]) -> Answered<Upload> {
        self.upload(FileRequest::Unpack { path: path.into() }).await
    }

    /// Makes a directory, and those that it lies in.
    pub async fn make_dirs(&self, path: &[u8], mode: u32) -> Answered<()> {
        self.done(Request::File(FileRequest::MakeDirs { path: path.into(), mode })).await
    }

    /// Gives something another name.
    pub async fn rename(&self, from: &[u8], to: &[u8], onto: Onto) -> Answered<()> {
        let request = FileRequest::Move { from: from.into(), to: to.into(), onto };
        self.done(Request::File(request)).await
    }

    /// Removes something.
    pub async fn remove(&self, path: &[u8], depth: Depth) -> Answered<()> {
        self.done(Request::File(FileRequest::Remove { path: path.into(), depth })).await
    }

    /// Gives something other permissions.
    pub async fn set_mode(&self, path: &[u8], mode: u32) -> Answered<()> {
        let request = FileRequest::Set { path: path.into(), mode: Some(mode), modified: None };
        self.done(Request::File(request)).await
    }

    /// Connects to a TCP port inside.
    pub async fn forward(&self, port: u16) -> Answered<DuplexStream> {
        let (mut from, mut to) = self.ask(Request::Forward { port }).await?;
        let answered = answer(&mut from).await?;
        if !matches!(answered, Answer::Done) {
            return Err(confused(&answered));
        }
        let (ours, theirs) = tokio::io::duplex(CHUNK);
        let (mut inner_from, mut inner_to) = tokio::io::split(theirs);
        tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK];
            while let Ok(count) = inner_from.read(&mut chunk).await {
                let bytes = chunk.get(..count).unwrap_or_default();
                if send(&mut to, Lane::In, bytes).await.is_err() || count == 0 {
                    break;
                }
            }
            // The connection stays open for what comes back.
            to
        });
        tokio::spawn(async move {
            while let Ok(Some(Frame::Bytes(Lane::Out, bytes))) = read(&mut from).await {
                if bytes.is_empty() || inner_to.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            inner_to.shutdown().await.unwrap_or_default();
        });
        Ok(ours)
    }

    async fn download(&self, request: FileRequest) -> Answered<Download> {
        let (mut from, to) = self.ask(Request::File(request)).await?;
        let answer = answer(&mut from).await?;
        let Answer::File { facts } = answer else { return Err(confused(&answer)) };
        Ok(Download { facts, from, _to: to })
    }

    async fn upload(&self, request: FileRequest) -> Answered<Upload> {
        let (from, to) = self.ask(Request::File(request)).await?;
        Ok(Upload { from, to })
    }
}

/// What becomes of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// What they lead to is meant.
    Follow,
    /// They themselves are meant.
    Keep,
}

impl Download {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Answered<Option<Vec<u8>>> {
        match read(&mut self.from).await.map_err(ClientError::Gone)? {
            Some(Frame::Bytes(_, bytes)) => Ok(Some(bytes)),
            Some(frame @ Frame::Message(_)) => {
                let answer: Answer = frame.message().map_err(ClientError::Gone)?;
                match answer {
                    Answer::Done => Ok(None),
                    Answer::Failed(failed) => Err(failed.into()),
                    other @ (Answer::Started { .. }
                    | Answer::Lost { .. }
                    | Answer::Ended { .. }
                    | Answer::Programs { .. }
                    | Answer::File { .. }
                    | Answer::Listing { .. }
                    | Answer::Stats { .. }
                    | Answer::Copied { .. }
                    | Answer::Room { .. }) => Err(confused(&other)),
                }
            }
            None => Err(ClientError::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// The bytes as a stream. One that breaks ends early, as the records in it tell.
    pub fn into_stream(mut self) -> DuplexStream {
        let (ours, mut theirs) = tokio::io::duplex(CHUNK);
        tokio::spawn(async move {
            while let Ok(Some(bytes)) = self.next().await {
                if theirs.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            theirs.shutdown().await.unwrap_or_default();
        });
        ours
    }
}

/// Why a stream did not get into a room.
#[derive(Debug, thiserror::Error)]
pub enum Unpoured {
    /// It could not be read to its end.
    #[error("could not read what was to be sent")]
    Source(#[source] io::Error),
    /// The room did not take it.
    #[error(transparent)]
    Room(#[from] ClientError),
}

impl Upload {
    /// Sends all of `source`; returns when it is there. A room that goes away, or does not want it, is
    /// told at once, however long `source` has nothing to give.
    pub async fn pour(self, mut source: impl AsyncRead + Unpin) -> Result<(), Unpoured> {
        let Self { mut from, mut to } = self;
        let sent = async {
            let mut chunk = vec![0; CHUNK];
            loop {
                let count = source.read(&mut chunk).await?;
                let bytes = chunk.get(..count).unwrap_or_default();
                // Why it was not taken is in the answer.
                if send(&mut to, Lane::In, bytes).await.is_err() || bytes.is_empty() {
                    return std::future::pending::<io::Result<Infallible>>().await;
                }
            }
        };
        let answer = tokio::select! {
            answer = answer(&mut from) => answer?,
            unread = sent => match unread.map_err(Unpoured::Source)? {},
        };
        if matches!(answer, Answer::Done) { Ok(()) } else { Err(confused(&answer).into()) }
    }

    /// Sends some bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            send(&mut self.to, Lane::In, chunk).await?;
        }
        Ok(())
    }

    /// That was all; returns when it is there.
    ///
    /// To be called after a write has failed, too: only this says why.
    pub async fn finish(mut self) -> Answered<()> {
        // Why it was not taken is in the answer.
        send(&mut self.to, Lane::In, &[]).await.unwrap_or_default();
        let answer = answer(&mut self.from).await?;
        if matches!(answer, Answer::Done) { Ok(()) } else { Err(confused(&answer)) }
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Download of {:?}", self.facts)
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Upload")
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&bulkhead_spec::escape_bytes(&self.path))
    }
}

impl Client {
    /// Whether anything is at `path`.
    pub async fn exists(&self, path: &[u8]) -> Answered<bool> {
        match self.stat(path, Links::Keep).await {
            Ok(_) => Ok(true),
            Err(ClientError::Failed(failed)) if failed.kind == "no_file" => Ok(false),
            Err(error) => Err(error),
        }
    }
}
