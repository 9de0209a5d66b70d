//! The dialogue, against a bus that is played by a thread.

use std::os::unix::net::UnixListener;
use std::thread::{self, JoinHandle};

use super::*;

/// A bus at a path of its own which plays `part` to whoever connects.
fn bus(part: impl FnOnce(UnixStream) + Send + 'static) -> (tempdir::Dir, JoinHandle<()>) {
    let dir = tempdir::Dir::new();
    let listener = UnixListener::bind(dir.0.join("bus")).unwrap();
    let thread = thread::spawn(move || part(listener.accept().unwrap().0));
    (dir, thread)
}

mod tempdir {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    static COUNT: AtomicU32 = AtomicU32::new(0);

    pub(super) struct Dir(pub(super) PathBuf);

    impl Dir {
        pub(super) fn new() -> Dir {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("bulkhead-bus-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Dir(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

fn expect(stream: &mut UnixStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, expected);
}

fn let_in(stream: &mut UnixStream) {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let mut greeting = b"\0AUTH EXTERNAL ".to_vec();
    for byte in uid.bytes() {
        write!(greeting, "{byte:02x}").unwrap();
    }
    greeting.extend(b"\r\n");
    expect(stream, &greeting);
    stream.write_all(b"OK 1234deadbeef\r\n").unwrap();
    expect(stream, b"BEGIN\r\n");
}

/// A signal without a body, as a bus sends it unasked after the greeting.
const SIGNAL: &[u8] = b"l\x04\x01\x01\x00\x00\x00\x00\x02\x00\x00\x00\x0e\x00\x00\x00\
    \x03\x01s\x00\x05\x00\x00\x00Hello\x00\x00\x00";

/// The answer to call `serial`, with a string as its body.
fn done(serial: u8) -> Vec<u8> {
    let mut bytes = b"l\x02\x01\x01\x08\x00\x00\x00\x01\x00\x00\x00\x0f\x00\x00\x00".to_vec();
    bytes.extend([5, 1, b'u', 0, serial, 0, 0, 0]);
    bytes.extend(b"\x08\x01g\x00\x01s\x00\x00");
    bytes.extend(b"\x03\x00\x00\x00:17\x00");
    bytes
}

/// The refusal of call 2.
const REFUSAL: &[u8] = b"l\x03\x01\x01\x00\x00\x00\x00\x05\x00\x00\x00\x15\x00\x00\x00\
    \x05\x01u\x00\x02\x00\x00\x00\x04\x01s\x00\x04\x00\x00\x00No.x\x00\x00\x00\x00";

fn ask(dir: &tempdir::Dir, patience: Duration) -> io::Result<()> {
    Dialogue::open(&dir.0.join("bus"), patience)?.start_scope("a.scope", 12345)
}

#[test]
fn a_scope_is_asked_for() {
    let (dir, thread) = bus(|mut stream| {
        let_in(&mut stream);
        expect(&mut stream, &message::hello(1));
        stream.write_all(&done(1)).unwrap();
        stream.write_all(SIGNAL).unwrap();
        expect(&mut stream, &message::start_scope(2, "a.scope", 12345));
        // In two pieces, as a stream may.
        let answer = done(2);
        stream.write_all(&answer[..20]).unwrap();
        thread::yield_now();
        stream.write_all(&answer[20..]).unwrap();
    });
    ask(&dir, PATIENCE).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_refusal_is_told_by_its_name() {
    let (dir, thread) = bus(|mut stream| {
        let_in(&mut stream);
        expect(&mut stream, &message::hello(1));
        stream.write_all(&done(1)).unwrap();
        expect(&mut stream, &message::start_scope(2, "a.scope", 12345));
        stream.write_all(REFUSAL).unwrap();
    });
    let error = ask(&dir, PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "the session bus answered `No.x`");
    thread.join().unwrap();
}

#[test]
fn a_bus_that_does_not_know_us_is_told_so() {
    let (dir, thread) = bus(|mut stream| {
        stream.write_all(b"REJECTED EXTERNAL\r\n").unwrap();
        // Until the other side hangs up, so that it can read.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let error = ask(&dir, PATIENCE).unwrap_err();
    assert_eq!(error.to_string(), "the session bus answered `REJECTED EXTERNAL`");
    thread.join().unwrap();
}

#[test]
fn a_silent_bus_is_left_when_the_patience_is_over() {
    let (dir, thread) = bus(|mut stream| {
        // Until the other side hangs up.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let patience = Duration::from_millis(50);
    let started = Instant::now();
    let error = ask(&dir, patience).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(started.elapsed() >= patience);
    thread.join().unwrap();
}

#[test]
fn a_message_of_a_gigabyte_is_not_waited_for() {
    let (dir, thread) = bus(|mut stream| {
        let_in(&mut stream);
        let fixed = b"l\x02\x01\x01\x00\x00\x00\x40\x01\x00\x00\x00\x0f\x00\x00\x00";
        stream.write_all(fixed).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let error = ask(&dir, PATIENCE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    thread.join().unwrap();
}

#[test]
fn only_our_scopes_are_ours() {
    let ours = ["/x/app.slice/bulkhead-12-3f.scope", "bulkhead-.scope"];
    let theirs = ["/x/app.slice/run-12.scope", "/x/bulkhead-1.scope/supervisor", "/", ""];
    assert!(ours.iter().all(|it| is_scope(Path::new(it))));
    assert!(!theirs.iter().any(|it| is_scope(Path::new(it))));
}
