//! Whatever either side can say arrives as it was said.

use std::{
    net::{IpAddr, SocketAddr},
    os::unix::net::UnixStream,
};

use bulkhead_guest::{
    protocol::{
        Accepted, After, Counted, Datagram, Disk, Flow, Furnish, Listen, MOST_TO_GUEST,
        MOST_TO_HOST, Start, Status, Stdio, To, ToGuest, ToHost,
        files::{
            Ask, Change, Depth, Facts, FileOrder, Filed, Follow, Kind, Notes, Onto, Put, Record,
        },
    },
    wire::{Arrived, Inbox, encode, send_all},
};
use bulkhead_linux::{
    launch::Stage,
    seccomp::{Profile, filter},
    walls::Walls,
};
use proptest::{
    collection::vec,
    option,
    prelude::{Just, ProptestConfig, Strategy, any, prop_oneof},
    proptest,
};
use serde::{Serialize, de::DeserializeOwned};

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(text(), 0..20)
}

fn walls() -> impl Strategy<Value = Walls> {
    let profile = prop_oneof![Just(Profile::Standard), Just(Profile::Debug)];
    let limit = || option::of(any::<u64>());
    (texts(), profile, limit(), limit()).prop_map(|(writable, profile, processes, files)| {
        Walls { writable, filter: filter(profile), processes, files }
    })
}

fn furnish() -> impl Strategy<Value = Furnish> {
    (texts(), vec((text(), text()), 0..3)).prop_map(|(scratch, files)| Furnish {
        scratch,
        files,
        expected: Vec::new(),
    })
}

fn start() -> impl Strategy<Value = Start> {
    let after = prop_oneof![Just(After::Stay), Just(After::End)];
    (any::<u32>(), texts(), texts(), text(), stdio(), after).prop_map(
        |(id, argv, env, dir, stdio, after)| Start { id, argv, env, dir, stdio, after },
    )
}

fn stdio() -> impl Strategy<Value = Stdio> {
    prop_oneof![
        Just(Stdio::Descriptors),
        any::<(u16, u16)>().prop_map(Stdio::Terminal),
        any::<(Option<u32>, u32, u32)>().prop_map(|(stdin, stdout, stderr)| Stdio::Carried {
            stdin,
            stdout,
            stderr
        }),
        any::<(u32, (u16, u16))>()
            .prop_map(|(channel, size)| Stdio::CarriedTerminal { channel, size }),
    ]
}

fn flow() -> impl Strategy<Value = Flow> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(channel, bytes)| Flow::Credit { channel, bytes }),
        any::<u32>().prop_map(|channel| Flow::Finish { channel }),
        any::<u32>().prop_map(|channel| Flow::Refuse { channel }),
    ]
}

fn address() -> impl Strategy<Value = SocketAddr> {
    any::<(IpAddr, u16)>().prop_map(SocketAddr::from)
}

fn datagram() -> impl Strategy<Value = Datagram> {
    (any::<u32>(), address(), address(), text())
        .prop_map(|(listener, local, peer, bytes)| Datagram { listener, local, peer, bytes })
}

fn ask() -> impl Strategy<Value = Ask> {
    let depth = || prop_oneof![Just(Depth::Itself), Just(Depth::Everything)];
    prop_oneof![
        text().prop_map(|path| Ask::Stat { path, follow: Follow::Links }),
        (text(), any::<(u32, u32)>()).prop_map(|(path, (depth, channel))| Ask::List {
            path,
            depth,
            channel
        }),
        (text(), any::<(u64, Option<u64>, u32)>()).prop_map(
            |(path, (offset, length, channel))| Ask::Read { path, offset, length, channel }
        ),
        (text(), any::<(Option<u32>, u32)>()).prop_map(|(path, (mode, channel))| Ask::Write {
            path,
            put: Put::InPlace,
            mode,
            notes: mode.map(|it| Notes {
                prefix: it.to_le_bytes().to_vec(),
                all: vec![(Vec::new(), it.to_le_bytes().to_vec())],
            }),
            channel
        }),
        (text(), any::<u32>()).prop_map(|(path, mode)| Ask::MakeDirs { path, mode }),
        (text(), text()).prop_map(|(from, to)| Ask::Move { from, to, onto: Onto::Nothing }),
        (text(), depth()).prop_map(|(path, depth)| Ask::Remove { path, depth }),
        (text(), any::<(Option<u32>, Option<(i64, u32)>)>())
            .prop_map(|(path, (mode, modified))| Ask::Set { path, mode, modified }),
        (text(), text()).prop_map(|(path, target)| Ask::Link { path, target }),
        (text(), any::<u32>()).prop_map(|(path, channel)| Ask::Pack { path, channel }),
        (text(), any::<u32>()).prop_map(|(path, channel)| Ask::Unpack { path, channel }),
        (text(), depth(), any::<u32>()).prop_map(|(path, depth, channel)| Ask::Watch {
            path,
            depth,
            channel
        }),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    let numbers = any::<(u64, u32, (u32, u32), (i64, u32))>();
    (numbers, option::of(text())).prop_map(|((size, mode, owner, modified), target)| {
        let kind = if target.is_some() { Kind::Link } else { Kind::File };
        let notes = vec![(mode.to_le_bytes().to_vec(), Vec::new())];
        Facts { kind, size, mode, owner, modified, target, notes }
    })
}

fn filed() -> impl Strategy<Value = Filed> {
    prop_oneof![
        Just(Filed::Done),
        facts().prop_map(Filed::Is),
        any::<i32>().prop_map(|errno| Filed::Failed { errno }),
        Just(Filed::NotAFile { kind: Kind::Fifo }),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    prop_oneof![
        (text(), facts()).prop_map(|(path, facts)| Record::Entry { path, facts }),
        Just(Record::FileEnd),
        (text(), any::<i32>()).prop_map(|(path, errno)| Record::Skipped { path, errno }),
        text().prop_map(|path| Record::Changed { path, change: Change::MovedTo }),
        Just(Record::Overflow),
        Just(Record::End),
    ]
}

fn listen() -> impl Strategy<Value = Listen> {
    let addresses = || vec(address(), 0..5);
    (any::<(u32, u32)>(), addresses(), addresses()).prop_map(|((id, most), tcp, udp)| Listen {
        id,
        tcp,
        udp,
        most,
    })
}

fn to_guest() -> impl Strategy<Value = ToGuest> {
    prop_oneof![
        furnish().prop_map(ToGuest::Furnish),
        walls().prop_map(ToGuest::Raise),
        start().prop_map(ToGuest::Start),
        any::<(u32, i32)>().prop_map(|(id, signal)| ToGuest::Signal { id, signal }),
        any::<(u32, (u16, u16))>().prop_map(|(id, size)| ToGuest::Resize { id, size }),
        any::<(u32, u16)>()
            .prop_map(|(channel, port)| ToGuest::Connect { channel, to: To::Port(port) }),
        (any::<u32>(), text())
            .prop_map(|(channel, path)| ToGuest::Connect { channel, to: To::Path(path) }),
        listen().prop_map(ToGuest::Listen),
        datagram().prop_map(ToGuest::Datagram),
        (any::<u32>(), ask()).prop_map(|(id, ask)| ToGuest::File(FileOrder { id, ask })),
        any::<u32>().prop_map(|id| ToGuest::Commit { id }),
        flow().prop_map(ToGuest::Flow),
    ]
}

fn ended() -> impl Strategy<Value = ToHost> {
    let status = prop_oneof![
        any::<i32>().prop_map(Status::Exited),
        any::<i32>().prop_map(Status::Signaled)
    ];
    let disk = prop_oneof![Just(Disk::Room), Just(Disk::Full)];
    (any::<(u32, u64, u64)>(), status, disk).prop_map(
        |((id, cpu_micros, largest_kib), status, disk)| {
            let counted = Counted { cpu_micros, largest_kib };
            ToHost::Ended { id, status, disk, counted }
        },
    )
}

fn to_host() -> impl Strategy<Value = ToHost> {
    let stage = prop_oneof![
        Just(Stage::Clone),
        Just(Stage::Prepare),
        Just(Stage::Dir),
        Just(Stage::Execute)
    ];
    prop_oneof![
        Just(()).prop_map(|()| ToHost::Ready),
        (".{0,200}", any::<i32>()).prop_map(|(action, errno)| ToHost::Failed { action, errno }),
        any::<(u32, u32)>().prop_map(|(id, pid)| ToHost::Started { id, pid }),
        (any::<(u32, i32)>(), stage).prop_map(|((id, errno), stage)| ToHost::NotStarted {
            id,
            stage,
            errno
        }),
        ended(),
        any::<u32>().prop_map(|channel| ToHost::Connected { channel }),
        any::<(u32, i32)>()
            .prop_map(|(channel, errno)| ToHost::NotConnected { channel, errno }),
        any::<u32>().prop_map(|id| ToHost::Listening { id }),
        any::<(u32, i32)>().prop_map(|(id, errno)| ToHost::NotListening { id, errno }),
        (any::<(u32, u32)>(), address(), address()).prop_map(
            |((channel, listener), local, peer)| {
                ToHost::Accepted(Accepted { channel, listener, local, peer })
            }
        ),
        datagram().prop_map(ToHost::Datagram),
        (any::<u32>(), filed()).prop_map(|(id, filed)| ToHost::Filed { id, filed }),
        flow().prop_map(ToHost::Flow),
    ]
}

/// What comes out of a stream into which `messages` are sent one after the other.
fn arrived<T: Serialize + DeserializeOwned>(messages: &[T], most: usize) -> Vec<T> {
    let (near, far) = UnixStream::pair().unwrap();
    let frames: Vec<u8> = messages.iter().flat_map(|it| encode(it).unwrap()).collect();
    let sender = std::thread::spawn(move || send_all(&near, &frames, &[]).unwrap());
    let mut inbox = Inbox::new(most);
    let mut got = Vec::new();
    while inbox.fill(&far).unwrap() == Arrived::Some {
        while let Some(message) = inbox.message().unwrap() {
            got.push(message);
        }
    }
    sender.join().unwrap();
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_host_says_arrives_as_it_was_said(messages in vec(to_guest(), 1..8)) {
        proptest::prop_assert_eq!(arrived(&messages, MOST_TO_GUEST), messages);
    }

    #[test]
    fn what_the_guest_says_arrives_as_it_was_said(messages in vec(to_host(), 1..8)) {
        proptest::prop_assert_eq!(arrived(&messages, MOST_TO_HOST), messages);
    }

    #[test]
    fn what_is_said_about_files_arrives_as_it_was_said(messages in vec(records(), 1..8)) {
        proptest::prop_assert_eq!(arrived(&messages, MOST_TO_HOST), messages);
    }
}
