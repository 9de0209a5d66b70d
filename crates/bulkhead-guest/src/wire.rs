//! Frames over a stream socket: a length, a message, and sometimes descriptors.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Serialize, de::DeserializeOwned};

/// The most descriptors in one frame.
const MOST_DESCRIPTORS: usize = 3;

/// A message as it goes over the wire.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Sends as much of `frame` as the socket takes, with `descriptors` on its first byte.
pub fn send(
    socket: impl AsFd,
    frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    // The space is rounded up, and would take one more.
    let fits = descriptors.len() <= MOST_DESCRIPTORS;
    let none = descriptors.is_empty();
    if !fits || !none && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one frame"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(frame)], &mut ancillary, SendFlags::NOSIGNAL)?)
}

/// Sends all of `frame` on a blocking socket.
pub fn send_all(
    socket: impl AsFd,
    frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut sent = send(&socket, frame, descriptors)?;
    while let Some(rest @ [_, ..]) = frame.get(sent..) {
        sent += send(&socket, rest, &[])?;
    }
    Ok(())
}

/// The receiving end: what has arrived and was not yet taken.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    most: usize,
}

/// Whether more can arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Something did.
    Some,
    /// The other side is gone.
    End,
}

impl Inbox {
    /// An empty inbox for frames of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), descriptors: VecDeque::new(), most }
    }

    /// Reads once from `socket`.
    pub fn fill(&mut self, socket: impl AsFd) -> io::Result<Arrived> {
        let mut chunk = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut chunk)];
        let got = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if MOST_DESCRIPTORS * 4 < self.descriptors.len() {
            return Err(io::Error::other("descriptors that nobody asked for"));
        }
        self.bytes.extend_from_slice(chunk.get(..got.bytes).unwrap_or_default());
        Ok(if got.bytes == 0 { Arrived::End } else { Arrived::Some })
    }

    /// The next message, if it has arrived whole.
    pub fn message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(length) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(io::Error::other)?;
        if self.most < length {
            return Err(io::Error::other("a frame is longer than allowed"));
        }
        let Some(body) = self.bytes.get(4..4 + length) else { return Ok(None) };
        let (message, rest) = postcard::take_from_bytes(body).map_err(io::Error::other)?;
        if !rest.is_empty() {
            return Err(io::Error::other("a frame holds more than its message"));
        }
        self.bytes.drain(..4 + length);
        Ok(Some(message))
    }

    /// A descriptor that came with the messages, the oldest first.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }
}
