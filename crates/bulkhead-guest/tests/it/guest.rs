//! The guest as a program, without its walls.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command},
    time::Duration,
};

use bulkhead_guest::{
    protocol::{
        After, Disk, Furnish, MOST_TO_GUEST, MOST_TO_HOST, Start, Status, Stdio, ToGuest,
        ToHost,
    },
    wire::{Arrived, Inbox, encode, send_all},
};
use bulkhead_linux::launch::Stage;
use rustix::pipe::{PipeFlags, pipe_with};

/// A guest and the host's end of the stream to it.
struct Guest {
    child: Child,
    control: UnixStream,
    inbox: Inbox,
}

impl Guest {
    #[expect(clippy::disallowed_methods, reason = "the guest is what starts programs")]
    fn start() -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Its control stream is descriptor 3.
        let child = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" 3<&0 0</dev/null", env!("CARGO_BIN_EXE_bulkhead-guest")])
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        Self { child, control, inbox: Inbox::new(MOST_TO_HOST) }
    }

    fn say(&self, message: &ToGuest, descriptors: &[&OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(|it| it.as_fd()).collect();
        send_all(&self.control, &encode(message).unwrap(), &descriptors).unwrap();
    }

    /// Hears that the program `id` runs.
    fn hears_start(&mut self, id: u32) {
        let heard = self.hears();
        let started =
            |it: &ToHost| matches!(it, ToHost::Started { id: it, pid: 1.. } if *it == id);
        assert!(heard.as_ref().is_some_and(started), "{heard:?}");
    }

    fn hears(&mut self) -> Option<ToHost> {
        loop {
            if let Some(message) = self.inbox.message().unwrap() {
                return Some(message);
            }
            match self.inbox.fill(&self.control) {
                Ok(Arrived::Some) => {}
                Ok(Arrived::End) => return None,
                // It ended with words of ours unread.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                    return None;
                }
            }
        }
    }

    /// Asks for the program `argv`; its output is to be read from what is returned.
    fn run(&self, id: u32, argv: &[&str], after: After) -> File {
        let input = File::open("/dev/null").unwrap().into();
        let (output, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        self.say(&start(id, argv, after), &[&input, &theirs, &theirs]);
        output.into()
    }

    /// Its exit code, once it has ended.
    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

fn start(id: u32, argv: &[&str], after: After) -> ToGuest {
    ToGuest::Start(Start {
        id,
        argv: argv.iter().map(|it| it.as_bytes().to_vec()).collect(),
        env: vec![b"NAME=value".to_vec()],
        dir: b"/".to_vec(),
        stdio: Stdio::Descriptors,
        after,
    })
}

fn said(mut output: File) -> String {
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    said
}

fn is_end(message: Option<&ToHost>, of: u32, as_it_was: Status) -> bool {
    matches!(message, Some(ToHost::Ended { id, status, disk: Disk::Room, .. })
        if *id == of && *status == as_it_was)
}

#[test]
fn programs_run_and_their_ends_are_told() {
    let mut guest = Guest::start();
    let output = guest.run(1, &["sh", "-c", "echo $NAME; pwd; exit 3"], After::Stay);
    guest.hears_start(1);
    let ended = guest.hears();
    assert!(is_end(ended.as_ref(), 1, Status::Exited(3)), "{ended:?}");
    assert_eq!(said(output), "value\n/\n");

    guest.run(2, &["sh", "-c", "kill -9 $$"], After::Stay);
    guest.hears_start(2);
    let ended = guest.hears();
    assert!(is_end(ended.as_ref(), 2, Status::Signaled(9)), "{ended:?}");
}

#[test]
fn a_sandbox_is_furnished_before_its_walls_stand() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings");
    let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
    let order = || Furnish {
        scratch: vec![bytes(dir.path())],
        files: vec![(bytes(&file), b"[user]\n".to_vec())],
        expected: Vec::new(),
    };
    let mut guest = Guest::start();
    guest.say(&ToGuest::Furnish(order()), &[]);
    let output = guest.run(1, &["cat", file.to_str().unwrap()], After::Stay);
    guest.hears_start(1);
    assert_eq!(said(output), "[user]\n");
    // What is there stays as it is, and there is no sandbox.
    let mut guest = Guest::start();
    guest.say(&ToGuest::Furnish(order()), &[]);
    let failed = guest.hears();
    assert!(matches!(&failed, Some(ToHost::Failed { errno: 17, .. })), "{failed:?}");
    assert_eq!(guest.end(), Some(125));
}

#[test]
fn signals_reach_the_program_they_are_for() {
    let mut guest = Guest::start();
    let mut one = guest.run(1, &["sh", "-c", "echo 1; exec sleep 1000"], After::Stay);
    let mut two = guest.run(2, &["sh", "-c", "echo 2; exec sleep 1000"], After::Stay);
    for output in [&mut one, &mut two] {
        output.read_exact(&mut [0; 2]).unwrap();
    }
    guest.hears_start(1);
    guest.hears_start(2);
    // Neither of these is for anybody.
    guest.say(&ToGuest::Signal { id: 9, signal: 9 }, &[]);
    guest.say(&ToGuest::Signal { id: 1, signal: 9999 }, &[]);
    guest.say(&ToGuest::Signal { id: 2, signal: 15 }, &[]);
    let ended = guest.hears();
    assert!(is_end(ended.as_ref(), 2, Status::Signaled(15)), "{ended:?}");
    guest.say(&ToGuest::Signal { id: 1, signal: 2 }, &[]);
    let ended = guest.hears();
    assert!(is_end(ended.as_ref(), 1, Status::Signaled(2)), "{ended:?}");
}

#[test]
fn a_program_that_cannot_be_started_is_told_with_how_far_it_came() {
    let mut guest = Guest::start();
    let mut fails = |message: ToGuest, stage: Stage, errno: i32| {
        let null: OwnedFd = File::open("/dev/null").unwrap().into();
        guest.say(&message, &[&null, &null, &null]);
        assert_eq!(guest.hears(), Some(ToHost::NotStarted { id: 1, stage, errno }));
    };
    fails(start(1, &["no-such-program"], After::Stay), Stage::Execute, no_entry());
    fails(start(1, &["/usr"], After::Stay), Stage::Execute, 13);
    fails(start(1, &[], After::Stay), Stage::Execute, no_entry());
    let ToGuest::Start(mut lost) = start(1, &["true"], After::Stay) else { unreachable!() };
    lost.dir = b"/no/such/dir".to_vec();
    fails(ToGuest::Start(lost), Stage::Dir, no_entry());
}

/// "No such file or directory", as a number.
fn no_entry() -> i32 {
    rustix::io::Errno::NOENT.raw_os_error()
}

#[test]
fn a_program_without_its_streams_is_not_started() {
    let mut guest = Guest::start();
    guest.say(&start(1, &["true"], After::Stay), &[]);
    let answer = guest.hears();
    assert!(
        matches!(answer, Some(ToHost::NotStarted { id: 1, stage: Stage::Prepare, .. })),
        "{answer:?}"
    );
}

#[test]
fn a_guest_ends_with_its_last_program_if_it_is_told_to() {
    let mut guest = Guest::start();
    guest.run(1, &["true"], After::End);
    guest.hears_start(1);
    let ended = guest.hears();
    assert!(is_end(ended.as_ref(), 1, Status::Exited(0)), "{ended:?}");
    assert_eq!(guest.hears(), None);
    assert_eq!(guest.end(), Some(0));
}

#[test]
fn a_guest_ends_when_its_host_is_gone() {
    let Guest { mut child, control, inbox } = Guest::start();
    drop((control, inbox));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_guest_that_hears_garbage_ends() {
    for garbage in [
        &u32::try_from(MOST_TO_GUEST + 1).unwrap().to_le_bytes()[..],
        b"\x02\x00\x00\x00\xff\xff",
        b"\x00\x00\x00\x00",
    ] {
        let mut guest = Guest::start();
        guest.control.write_all(garbage).unwrap();
        assert_eq!(guest.hears(), None);
        assert_eq!(guest.end(), Some(125));
    }
}

#[test]
fn a_guest_that_is_given_too_many_descriptors_ends() {
    let mut guest = Guest::start();
    let null: OwnedFd = File::open("/dev/null").unwrap().into();
    for _ in 0..5 {
        guest.say(&ToGuest::Signal { id: 9, signal: 15 }, &[&null, &null, &null]);
    }
    assert_eq!(guest.hears(), None);
    assert_eq!(guest.end(), Some(125));
}
