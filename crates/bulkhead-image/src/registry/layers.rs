//! Fetches layers, some at a time, each straight into its directory.

use std::io::{self, Read};

use bulkhead_spec::Digest;
use bytes::{Buf as _, Bytes};
use futures_util::{StreamExt as _, TryStreamExt as _};
use hyper::body::Incoming;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::spawn_blocking,
};

use super::{Registry, Remote};
use crate::{
    ImageError,
    hash::Hashed,
    http::{NoAnswer, piece},
    manifest::{Descriptor, Record},
    shelf::finish,
    store::{Claim, Store},
    unpack::{Caps, unpack},
};

/// How many layers are fetched at the same time.
const AT_ONCE: usize = 3;
/// How often a layer is begun anew when the connection breaks.
const TRIES: usize = 3;
/// Pieces that wait to be unpacked.
const AHEAD: usize = 32;

impl Registry {
    /// Fetches what of `remote` is not in the store, and tells what is to be kept of it.
    pub(crate) async fn fetch(
        &self,
        remote: Remote,
        store: &Store,
    ) -> Result<Record, ImageError> {
        let mut wanted: Vec<(Digest, Descriptor)> = Vec::new();
        for pair in remote.config.layers().iter().copied().zip(remote.layers) {
            if wanted.iter().all(|(layer, _)| *layer != pair.0) {
                wanted.push(pair);
            }
        }
        futures_util::stream::iter(wanted)
            .map(|(layer, descriptor)| async move {
                self.layer(layer, &descriptor, store).await
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(remote.config.record(remote.digest))
    }

    async fn layer(
        &self,
        layer: Digest,
        descriptor: &Descriptor,
        store: &Store,
    ) -> Result<(), ImageError> {
        for attempt in 1.. {
            let place = store.clone();
            let claim = spawn_blocking(move || place.claim(layer)).await.map_err(lost)??;
            let Some(claim) = claim else { return Ok(()) };
            match self.fill(claim, layer, descriptor).await {
                Err(ImageError::Unreachable { .. }) if attempt < TRIES => {}
                done => return done,
            }
        }
        Ok(())
    }

    async fn fill(
        &self,
        claim: Claim,
        layer: Digest,
        descriptor: &Descriptor,
    ) -> Result<(), ImageError> {
        let answer = self.get(&format!("blobs/{}", descriptor.digest)).await?;
        let (sender, pieces) = channel(AHEAD);
        let expected = descriptor.clone();
        let unpacked = spawn_blocking(move || {
            claim.fill(|dir| {
                let pieces = Pieces { pieces, current: Bytes::new() };
                let mut packed = Hashed::new(pieces);
                unpack(layer, &mut packed, dir, Caps::USUAL)?;
                finish(packed, &expected)
            })
        });
        let fed = feed(answer.into_body(), &sender, descriptor.size).await;
        drop(sender);
        let unpacked = unpacked.await.map_err(lost)?;
        // A broken connection also breaks what is unpacked; the cause is the one to tell.
        fed.map_err(|error| self.unreachable(&error))?;
        unpacked
    }
}

/// Passes a body on, and no more of it than was promised.
async fn feed(
    mut body: Incoming,
    sender: &Sender<io::Result<Bytes>>,
    most: u64,
) -> Result<(), NoAnswer> {
    let mut count = 0;
    loop {
        let data = match piece(&mut body).await {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(()),
            Err(error) => {
                let broken = io::Error::new(io::ErrorKind::ConnectionAborted, error.clone());
                // Whoever unpacks may have given up before.
                sender.send(Err(broken)).await.unwrap_or_default();
                return Err(error);
            }
        };
        count += data.len() as u64;
        let data = if most < count {
            let why = "it is longer than its manifest says";
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        } else {
            Ok(data)
        };
        let over = data.is_err();
        // Whoever unpacks has given up, and tells why.
        if sender.send(data).await.is_err() || over {
            return Ok(());
        }
    }
}

/// A stream of pieces as a reader, for a thread that may wait.
struct Pieces {
    pieces: Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

fn lost(error: tokio::task::JoinError) -> ImageError {
    ImageError::System { action: "unpack a layer".to_owned(), source: io::Error::other(error) }
}
