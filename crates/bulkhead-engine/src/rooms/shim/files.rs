//! Files and ports of a room, for a client.

use std::io;

use bulkhead_backends::guest::{
    Link, To,
    files::{FileError, Follow, Reading, Writing},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{
    super::{
        frame::{CHUNK, Frame, Lane, read, send},
        protocol::{Answer, FileRequest},
    },
    serve::{Client, Trouble},
};
use crate::RunError;

impl Client {
    /// Does something with files, inside and with the rights of the room.
    pub(super) async fn file(&mut self, request: FileRequest) -> Result<(), Trouble> {
        let link = self.link().await?;
        let files = link.files();
        match request {
            FileRequest::Stat { path, follow } => {
                let follow = if follow { Follow::Links } else { Follow::Nothing };
                let facts = files.stat(path.bytes(), follow).await.map_err(failed)?;
                self.answer(Answer::File { facts }).await
            }
            FileRequest::List { path, depth, most } => {
                let listing = files.list(path.bytes(), depth, most).await.map_err(failed)?;
                let entries = listing.entries.into_iter().map(|it| (it.path, it.facts));
                let (entries, truncated) = (entries.collect(), listing.truncated);
                self.answer(Answer::Listing { entries, truncated }).await
            }
            FileRequest::Read { path, offset, length } => {
                let reading = files.read(path.bytes(), offset, length).await.map_err(failed)?;
                self.pour(reading, &link).await
            }
            FileRequest::Pack { path } => {
                let reading = files.pack(path.bytes()).await.map_err(failed)?;
                self.pour(reading, &link).await
            }
            FileRequest::Watch { path, depth } => {
                let reading = files.watch(path.bytes(), depth).await.map_err(failed)?;
                self.answer(Answer::File { facts: reading.facts }).await?;
                self.watched(reading.bytes).await
            }
            FileRequest::Write { path, put, mode, notes } => {
                let writing = files.write(path.bytes(), put, mode, notes).await;
                self.fill(writing.map_err(failed)?).await
            }
            FileRequest::Unpack { path } => {
                let mut writing = files.unpack(path.bytes()).await.map_err(failed)?;
                self.take(&mut writing).await?;
                writing.finish().await.map_err(failed)?;
                self.answer(Answer::Done).await
            }
            FileRequest::MakeDirs { path, mode } => {
                files.make_dirs(path.bytes(), mode).await.map_err(failed)?;
                self.answer(Answer::Done).await
            }
            FileRequest::Move { from, to, onto } => {
                files.rename(from.bytes(), to.bytes(), onto).await.map_err(failed)?;
                self.answer(Answer::Done).await
            }
            FileRequest::Remove { path, depth } => {
                files.remove(path.bytes(), depth).await.map_err(failed)?;
                self.answer(Answer::Done).await
            }
            FileRequest::Set { path, mode, modified } => {
                files.set(path.bytes(), mode, modified).await.map_err(failed)?;
                self.answer(Answer::Done).await
            }
        }
    }

    /// The stream to the guest of the room.
    async fn link(&self) -> Result<Link, RunError> {
        // A room that was frozen goes on for whoever wants it: a frozen guest answers nobody.
        if *self.held.paused.borrow() {
            self.held.resume().await?;
        }
        let sandbox = self.held.room.sandbox().await?;
        let link = sandbox.guest().cloned();
        link.ok_or_else(|| RunError::Room {
            what: "files",
            why: "the backend of this room serves none".to_owned(),
        })
    }

    /// Passes everything on to the client, after what it is, to its end. What ends because the guest
    /// does is not whole.
    async fn pour(&mut self, mut reading: Reading, guest: &Link) -> Result<(), Trouble> {
        self.answer(Answer::File { facts: reading.facts.clone() }).await?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = reading.bytes.read(&mut chunk).await?;
            if count == 0 && guest.is_over() {
                return Err(RunError::Gone.into());
            }
            if count == 0 {
                reading.finish().await.map_err(failed)?;
                return self.answer(Answer::Done).await;
            }
            send(&mut self.to, Lane::Out, chunk.get(..count).unwrap_or_default()).await?;
        }
    }

    /// Passes everything on for as long as the client stays.
    async fn watched(&mut self, mut from: impl AsyncRead + Unpin) -> Result<(), Trouble> {
        let Self { from: client, to, .. } = self;
        let poured = async {
            let mut chunk = vec![0; CHUNK];
            loop {
                let count = from.read(&mut chunk).await?;
                if count == 0 {
                    return Ok(());
                }
                send(to, Lane::Out, chunk.get(..count).unwrap_or_default()).await?;
            }
        };
        tokio::select! {
            poured = poured => poured,
            left = read(client) => left.map(drop).map_err(Trouble::from),
        }
    }

    async fn fill(&mut self, mut writing: Writing) -> Result<(), Trouble> {
        self.take(&mut writing).await?;
        writing.finish().await.map_err(failed)?;
        self.answer(Answer::Done).await
    }

    /// Passes on what the client sends, to its end. What the other side does not take is dropped:
    /// why is told by whoever finishes the writing.
    async fn take(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Trouble> {
        let mut taken = true;
        loop {
            match read(&mut self.from).await? {
                Some(Frame::Bytes(Lane::In, bytes)) if bytes.is_empty() => break,
                Some(Frame::Bytes(Lane::In, bytes)) => {
                    taken = taken && to.write_all(&bytes).await.is_ok();
                }
                Some(Frame::Bytes(Lane::Out | Lane::Err, _) | Frame::Message(_)) | None => {
                    return Err(io::Error::other("the rest of it never came").into());
                }
            }
        }
        if taken {
            to.shutdown().await.unwrap_or_default();
        }
        Ok(())
    }

    /// Joins the client to a port inside.
    pub(super) async fn forward(&mut self, port: u16) -> Result<(), Trouble> {
        let link = self.link().await?;
        let channel = link.connect(To::Port(port)).await.map_err(RunError::from)?;
        self.answer(Answer::Done).await?;
        let (mut inside_from, mut inside_to) = tokio::io::split(channel);
        let Self { from, to, .. } = self;
        let out = async {
            let mut chunk = vec![0; CHUNK];
            loop {
                let count = inside_from.read(&mut chunk).await?;
                send(to, Lane::Out, chunk.get(..count).unwrap_or_default()).await?;
                if count == 0 {
                    return Ok::<(), io::Error>(());
                }
            }
        };
        let inward = async {
            loop {
                match read(from).await? {
                    Some(Frame::Bytes(Lane::In, bytes)) if bytes.is_empty() => {
                        inside_to.shutdown().await.unwrap_or_default();
                    }
                    Some(Frame::Bytes(Lane::In, bytes)) => inside_to.write_all(&bytes).await?,
                    Some(Frame::Bytes(Lane::Out | Lane::Err, _) | Frame::Message(_)) | None => {
                        return Ok::<(), io::Error>(());
                    }
                }
            }
        };
        tokio::select! {
            done = out => done.map_err(Trouble::from),
            done = inward => done.map_err(Trouble::from),
        }
    }
}

fn failed(error: FileError) -> Trouble {
    RunError::File(error).into()
}
