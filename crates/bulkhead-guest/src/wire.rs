//! Frames over a stream: a length, and a message or bytes of a channel; over a socket sometimes
//! descriptors as well.

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
/// In the length of a frame: it holds bytes of a channel, after the channel's number.
const DATA: u32 = 1 << 31;
/// As much as is read at once: little at first, for most streams carry a handful of messages and
/// every page that is touched costs a start a microsecond or two.
const FIRST_CHUNK: usize = 4 << 10;
const CHUNK: usize = 32 << 10;
/// What comes before the bytes in a frame of a channel's.
pub const DATA_HEADER: usize = 8;

/// What a frame holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a, T> {
    /// A message.
    Message(T),
    /// Bytes of a channel.
    Data {
        /// Which channel.
        channel: u32,
        /// What was sent in it.
        bytes: &'a [u8],
    },
}

/// A message as it goes over the wire.
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    if length & DATA != 0 {
        return Err(io::Error::other("a message is longer than any frame"));
    }
    let mut frame = Vec::with_capacity(body.len() + 4);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// What comes before `count` bytes of `channel`.
pub fn data_header(channel: u32, count: usize) -> [u8; DATA_HEADER] {
    let length = u32::try_from(count + 4).unwrap_or(u32::MAX) | DATA;
    let mut header = [0; DATA_HEADER];
    let numbers = length.to_le_bytes().into_iter().chain(channel.to_le_bytes());
    header.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
    header
}

/// Bytes of a channel as they go over the wire.
pub fn encode_data(channel: u32, bytes: &[u8]) -> Vec<u8> {
    [&data_header(channel, bytes.len()), bytes].concat()
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
    /// How many of them were taken.
    taken: usize,
    descriptors: VecDeque<OwnedFd>,
    most: usize,
    /// How much is read at once.
    chunk: usize,
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
        let (bytes, descriptors) = (Vec::new(), VecDeque::new());
        Self { bytes, taken: 0, descriptors, most, chunk: FIRST_CHUNK }
    }

    /// Reads once from `socket`, descriptors too.
    pub fn fill(&mut self, socket: impl AsFd) -> io::Result<Arrived> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let arrived = self.read(|chunk| {
            let mut slices = [IoSliceMut::new(chunk)];
            let got = recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            Ok(got.bytes)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if MOST_DESCRIPTORS * 4 < self.descriptors.len() {
            return Err(io::Error::other("descriptors that nobody asked for"));
        }
        Ok(arrived)
    }

    /// Reads once from a `pipe`, or whatever carries bytes alone.
    pub fn fill_plain(&mut self, pipe: impl AsFd) -> io::Result<Arrived> {
        self.read(|chunk| Ok(rustix::io::read(pipe, chunk)?))
    }

    /// Takes in `bytes` that were read elsewhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    fn read(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Arrived> {
        self.compact();
        let old = self.bytes.len();
        self.bytes.resize(old + self.chunk, 0);
        let got = read(self.bytes.get_mut(old..).unwrap_or_default());
        self.bytes.truncate(old + got.as_ref().map_or(0, |it| *it));
        if self.bytes.len() == old + self.chunk {
            self.chunk = CHUNK;
        }
        Ok(if got? == 0 { Arrived::End } else { Arrived::Some })
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
    }

    /// The next frame, if it has arrived whole.
    pub fn frame<T: DeserializeOwned>(&mut self) -> io::Result<Option<Frame<'_, T>>> {
        let arrived = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((head, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
        let head = u32::from_le_bytes(*head);
        let length = usize::try_from(head & !DATA).map_err(io::Error::other)?;
        if self.most < length {
            return Err(io::Error::other("a frame is longer than allowed"));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        self.taken += 4 + length;
        if head & DATA != 0 {
            let (channel, bytes) = body
                .split_first_chunk::<4>()
                .ok_or_else(|| io::Error::other("a frame is for no channel"))?;
            let channel = u32::from_le_bytes(*channel);
            return Ok(Some(Frame::Data { channel, bytes }));
        }
        let (message, rest) = postcard::take_from_bytes(body).map_err(io::Error::other)?;
        if !rest.is_empty() {
            return Err(io::Error::other("a frame holds more than its message"));
        }
        Ok(Some(Frame::Message(message)))
    }

    /// The next message, if it has arrived whole; an error if bytes of a channel come first.
    pub fn message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.frame()? {
            Some(Frame::Message(message)) => Ok(Some(message)),
            Some(Frame::Data { .. }) => Err(io::Error::other("bytes of no channel")),
            None => Ok(None),
        }
    }

    /// A descriptor that came with the messages, the oldest first.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }
}
