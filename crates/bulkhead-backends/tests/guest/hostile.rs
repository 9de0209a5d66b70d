//! A guest that breaks the rules: the link ends with the rule's name, and nothing else happens.

use bulkhead_backends::{
    BackendError,
    guest::{After, Doors, Link, Order, Unready},
};
use bulkhead_guest::{
    protocol::{
        Accepted, Counted, Datagram, Disk, FIRST_OF_GUEST, Flow, MOST_DATAGRAM, Status, ToHost,
        WINDOW_TO_GUEST, WINDOW_TO_HOST,
    },
    wire::{encode, encode_data},
};
use bulkhead_spec::Stdin;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};

use crate::house::{shell, soon};

/// A link to a guest that is played here.
fn played() -> (Link, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    let (from, to) = split(ours);
    (Link::over_stream(from, to), theirs)
}

fn frames(messages: &[ToHost]) -> Vec<u8> {
    messages.iter().flat_map(|it| encode(it).unwrap()).collect()
}

fn address() -> std::net::SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

/// What the link says about `bytes`, while program 1 with channels 1 to 3 and listener 2 were asked
/// for.
async fn rule(bytes: Vec<u8>) -> String {
    let (link, mut guest) = played();
    let order = Order { stdin: Stdin::Piped, after: After::Stay, ..shell("true") };
    let starting = link.begin(order).unwrap();
    let listening = {
        let link = link.clone();
        tokio::spawn(async move {
            let doors = Doors { tcp: vec![address()], udp: vec![], most: 1 };
            link.listen(doors).await
        })
    };
    // Both have been asked for when the second frame is there.
    let mut heard = 0;
    let mut buffer = vec![0; 10_000];
    while heard < 2 {
        let count = soon(guest.read(&mut buffer)).await.unwrap();
        let mut inbox = bulkhead_guest::wire::Inbox::new(1 << 20);
        inbox.push(&buffer[..count]);
        while inbox.message::<bulkhead_guest::protocol::ToGuest>().unwrap().is_some() {
            heard += 1;
        }
    }
    let started = encode(&ToHost::Started { id: 1, pid: 2 }).unwrap();
    guest.write_all(&started).await.unwrap();
    guest.write_all(&encode(&ToHost::Listening { id: 2 }).unwrap()).await.unwrap();
    let _program = soon(starting.finish()).await.unwrap();
    let _listener = soon(listening).await.unwrap().unwrap();
    guest.write_all(&bytes).await.unwrap();
    match soon(link.ready()).await {
        Err(Unready::Broken(BackendError::Guest(rule))) => rule,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whatever_breaks_a_rule_ends_the_link() {
    let flow = |it| frames(&[ToHost::Flow(it)]);
    let accepted = |channel, listener| {
        ToHost::Accepted(Accepted { channel, listener, local: address(), peer: address() })
    };
    let ended = |id| ToHost::Ended {
        id,
        status: Status::Exited(0),
        disk: Disk::Room,
        counted: Counted::default(),
    };
    let datagram = |listener, length| {
        let bytes = vec![0; length];
        ToHost::Datagram(Datagram { listener, local: address(), peer: address(), bytes })
    };
    let finish = |channel| ToHost::Flow(Flow::Finish { channel });
    let flood: Vec<u8> =
        (0..=WINDOW_TO_HOST / 1024).flat_map(|_| encode_data(2, &[0; 1024])).collect();
    let after_the_end = [frames(&[finish(2)]), encode_data(2, b"x")].concat();
    for (bytes, expected) in [
        (encode_data(9, b"x"), "bytes of a channel that is not open"),
        (encode_data(1, b"x"), "bytes in a channel that it had finished"),
        (after_the_end, "bytes of a channel that is not open"),
        (flood, "more bytes than its credit"),
        (flow(Flow::Credit { channel: 9, bytes: 1 }), "a channel that never was"),
        (flow(Flow::Credit { channel: 1, bytes: 1 }), "credit for more than it was sent"),
        (
            flow(Flow::Credit { channel: 1, bytes: u32::try_from(WINDOW_TO_GUEST).unwrap() }),
            "credit for more than it was sent",
        ),
        (flow(Flow::Refuse { channel: 0 }), "a channel that never was"),
        (frames(&[finish(2), finish(2)]), "the end of a channel that is not open"),
        (frames(&[finish(1)]), "a second end of a channel"),
        (frames(&[ToHost::Started { id: 1, pid: 2 }]), "the second start of a program"),
        (frames(&[ToHost::Started { id: 7, pid: 2 }]), "the start of an unknown program"),
        (frames(&[ended(7)]), "the end of an unknown program"),
        (frames(&[ended(1), ended(1)]), "the end of an unknown program"),
        (frames(&[ToHost::Connected { channel: 1 }]), "an unknown connection"),
        (frames(&[ToHost::Listening { id: 2 }]), "a second answer of a listener"),
        (frames(&[accepted(5, 2)]), "a channel under a number that is not new"),
        (frames(&[accepted(FIRST_OF_GUEST, 9)]), "a connection of no listener"),
        (
            frames(&[accepted(FIRST_OF_GUEST, 2), accepted(FIRST_OF_GUEST + 1, 2)]),
            "more connections than allowed",
        ),
        (frames(&[datagram(9, 1)]), "a datagram of no listener"),
        (frames(&[datagram(2, MOST_DATAGRAM + 1)]), "a datagram longer than allowed"),
        (vec![0xff; 8], "a frame is longer than allowed"),
        (vec![2, 0, 0, 0x80, 1, 1], "a frame is for no channel"),
    ] {
        assert_eq!(rule(bytes).await, expected);
    }
}

#[tokio::test]
async fn whoever_waits_is_told_of_the_broken_rule() {
    let (link, mut guest) = played();
    let starting = link.begin(shell("true")).unwrap();
    guest.write_all(&encode(&ToHost::Started { id: 1, pid: 2 }).unwrap()).await.unwrap();
    let mut program = soon(starting.finish()).await.unwrap();
    guest.write_all(&encode_data(77, b"x")).await.unwrap();
    let error = soon(program.wait()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the guest broke the protocol: bytes of a channel that is not open"
    );
    let mut said = Vec::new();
    let mut stdout = program.take_streams().unwrap().stdout;
    assert_eq!(soon(stdout.read_to_end(&mut said)).await.unwrap(), 0);
    // The stream is closed, so that the guest ends if it is one of ours.
    drop((program, link));
    soon(guest.read_to_end(&mut said)).await.unwrap();
}
