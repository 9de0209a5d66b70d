//! Frames, whole and broken.

use std::{
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::net::UnixStream,
    },
};

use bulkhead_guest::{
    protocol::{MOST_TO_HOST, ToGuest, ToHost},
    wire::{Arrived, Inbox, encode, send, send_all},
};
use proptest::{collection::vec, prelude::any, proptest};

const SIGNAL: ToGuest = ToGuest::Signal { id: 7, signal: 15 };

fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&length.to_le_bytes(), body].concat()
}

/// What an inbox for frames of `most` bytes makes of `bytes`: a message, nothing yet, or an error.
fn hears(bytes: &[u8], most: usize) -> Result<Option<ToHost>, String> {
    let (mut near, far) = UnixStream::pair().unwrap();
    near.write_all(bytes).unwrap();
    let mut inbox = Inbox::new(most);
    inbox.fill(&far).unwrap();
    inbox.message().map_err(|error| error.to_string())
}

#[test]
fn a_message_that_comes_byte_by_byte_is_one_message() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut inbox = Inbox::new(100);
    let frame = encode(&SIGNAL).unwrap();
    let (last, first) = frame.split_last().unwrap();
    for byte in first {
        near.write_all(&[*byte]).unwrap();
        assert_eq!(inbox.fill(&far).unwrap(), Arrived::Some);
        assert_eq!(inbox.message::<ToGuest>().unwrap(), None);
    }
    near.write_all(&[*last]).unwrap();
    inbox.fill(&far).unwrap();
    assert_eq!(inbox.message::<ToGuest>().unwrap(), Some(SIGNAL));
    assert_eq!(inbox.message::<ToGuest>().unwrap(), None);
}

#[test]
fn messages_that_come_together_are_taken_one_by_one() {
    let (mut near, far) = UnixStream::pair().unwrap();
    let frames = [encode(&SIGNAL).unwrap(), encode(&SIGNAL).unwrap()].concat();
    near.write_all(&frames).unwrap();
    near.write_all(&frames[..3]).unwrap();
    let mut inbox = Inbox::new(100);
    inbox.fill(&far).unwrap();
    for expected in [Some(SIGNAL), Some(SIGNAL), None] {
        assert_eq!(inbox.message::<ToGuest>().unwrap(), expected);
    }
}

#[test]
fn the_end_of_the_stream_is_told() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(near);
    assert_eq!(Inbox::new(100).fill(&far).unwrap(), Arrived::End);
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_has_arrived() {
    let too_long = u32::try_from(MOST_TO_HOST + 1).unwrap().to_le_bytes();
    for length in [too_long, [0xff; 4]] {
        let refused = Err("a frame is longer than allowed".to_owned());
        assert_eq!(hears(&length, MOST_TO_HOST), refused);
    }
    let just = u32::try_from(MOST_TO_HOST).unwrap().to_le_bytes();
    assert_eq!(hears(&just, MOST_TO_HOST), Ok(None));
}

#[test]
fn garbage_is_refused() {
    for body in [&b""[..], b"\xff", b"\x63", b"\x04\xff\xff\xff\xff\xff\xff", b"\x01\xff\xff"] {
        assert!(hears(&frame(body), 100).is_err(), "{body:?}");
    }
}

#[test]
fn a_message_with_something_behind_it_is_refused() {
    let mut body = encode(&ToHost::Ready).unwrap().split_off(4);
    assert_eq!(hears(&frame(&body), 100), Ok(Some(ToHost::Ready)));
    body.push(0);
    assert!(hears(&frame(&body), 100).is_err());
}

#[test]
fn text_that_is_no_text_is_refused() {
    let mut frame = encode(&ToHost::Failed { action: "ab".to_owned(), errno: 1 }).unwrap();
    let at = frame.windows(2).position(|it| it == b"ab").unwrap();
    frame[at] = 0xff;
    assert!(hears(&frame, 100).is_err());
}

proptest! {
    /// Neither a panic nor more memory than what was sent: a length inside of a message proves
    /// nothing.
    #[test]
    fn no_bytes_are_trusted(bytes in vec(any::<u8>(), 0..300)) {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&frame(&bytes)).unwrap();
        near.write_all(&bytes).unwrap();
        drop(near);
        let mut inbox = Inbox::new(MOST_TO_HOST);
        while inbox.fill(&far).unwrap() == Arrived::Some {}
        while let Ok(Some(message)) = inbox.message::<ToHost>() {
            drop(message);
        }
        while let Ok(Some(message)) = inbox.message::<ToGuest>() {
            drop(message);
        }
    }
}

/// A file that says `text`, without a name.
fn file(text: &str) -> File {
    let mut file =
        File::from(rustix::fs::memfd_create("text", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn descriptors_arrive_in_their_order() {
    let (near, far) = UnixStream::pair().unwrap();
    let files = ["one", "two", "three"].map(file);
    let frame = encode(&SIGNAL).unwrap();
    send_all(&near, &frame, &files.each_ref().map(|it| it.as_fd())).unwrap();
    let mut inbox = Inbox::new(100);
    inbox.fill(&far).unwrap();
    assert_eq!(inbox.message::<ToGuest>().unwrap(), Some(SIGNAL));
    for expected in ["one", "two", "three"] {
        let mut said = String::new();
        File::from(inbox.descriptor().unwrap()).read_to_string(&mut said).unwrap();
        assert_eq!(said, expected);
    }
    assert!(inbox.descriptor().is_none());
}

#[test]
fn more_descriptors_than_a_frame_has_are_not_sent() {
    let (near, _far) = UnixStream::pair().unwrap();
    let file = file("");
    let four: [BorrowedFd<'_>; 4] = [file.as_fd(); 4];
    let error = send(&near, &encode(&SIGNAL).unwrap(), &four).unwrap_err();
    assert_eq!(error.to_string(), "too many descriptors for one frame");
}

#[test]
fn descriptors_that_nobody_asked_for_are_refused() {
    let (near, far) = UnixStream::pair().unwrap();
    let file = file("");
    let three = [file.as_fd(); 3];
    let mut inbox = Inbox::new(100);
    let mut taken = 0;
    let error = loop {
        send(&near, b"x", &three).unwrap();
        match inbox.fill(&far) {
            Ok(_) => taken += 3,
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "descriptors that nobody asked for");
    assert_eq!(taken, 12);
}
