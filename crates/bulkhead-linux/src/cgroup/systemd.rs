//! Asks the service manager of our user for a cgroup, over the session bus.
//!
//! One connection, two calls: a whole D-Bus library would be 29 crates for that. The manager
//! moves us into a new scope with `Delegate=yes`; from then on the cgroup of the scope is ours to
//! divide, and systemd forgets it when the last process in it has ended.

mod message;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use self::message::Answer;
use super::kill;

/// How long the dialogue may take, and then again how long the move.
const PATIENCE: Duration = Duration::from_secs(2);

/// The serials of our two calls.
const HELLO: u32 = 1;
const START: u32 = 2;

/// Has this process put into a new scope; returns when it is in.
pub(super) fn request_scope(bus: &Path) -> io::Result<()> {
    let process = std::process::id();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let name = format!("bulkhead-{process}-{:x}{:08x}.scope", now.tv_sec, now.tv_nsec);
    Dialogue::open(bus, PATIENCE)?.start_scope(&name, process)?;

    // The answer says that the job is queued, not that it is done.
    let moved = kill::until(Instant::now() + PATIENCE, || {
        fs::read_to_string("/proc/self/cgroup").is_ok_and(|it| it.contains(&name))
    });
    let late = || timed_out(&format!("systemd did not move us into `{name}`"));
    if moved { Ok(()) } else { Err(late()) }
}

/// Whether the cgroup is a scope that was made by [`request_scope`].
pub(super) fn is_scope(cgroup: &Path) -> bool {
    let name = cgroup.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("bulkhead-") && name.ends_with(".scope")
}

/// A connection to the bus that ends at a deadline.
struct Dialogue {
    stream: UnixStream,
    deadline: Instant,
}

impl Dialogue {
    /// Connects and says who we are; the bus checks that by the credentials of the socket.
    fn open(bus: &Path, patience: Duration) -> io::Result<Dialogue> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Holds for the connect too, which would wait forever for a bus that does not accept.
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(bus)?)?;
        let deadline = Instant::now() + patience;
        let mut dialogue = Dialogue { stream: UnixStream::from(socket), deadline };
        dialogue.authenticate()?;
        Ok(dialogue)
    }

    fn authenticate(&mut self) -> io::Result<()> {
        let uid = rustix::process::geteuid().as_raw().to_string();
        // In hexadecimal, where a digit is a 3 and itself.
        let hex: String = uid.chars().flat_map(|digit| ['3', digit]).collect();
        self.stream.write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.fill(&mut byte)?;
            line.extend(byte);
            if line.len() > 256 {
                return Err(refused("a line without an end"));
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(refused(String::from_utf8_lossy(&line).trim()));
        }
        self.stream.write_all(b"BEGIN\r\n")
    }

    fn start_scope(mut self, name: &str, process: u32) -> io::Result<()> {
        self.call(HELLO, &message::hello(HELLO))?;
        self.call(START, &message::start_scope(START, name, process))
    }

    /// Sends a call and waits for its answer, past whatever else the bus has to tell.
    fn call(&mut self, serial: u32, call: &[u8]) -> io::Result<()> {
        self.stream.write_all(call)?;
        loop {
            let mut fixed = [0; message::FIXED];
            self.fill(&mut fixed)?;
            let mut whole = fixed.to_vec();
            let length = message::length(&fixed)?;
            whole.resize(length, 0);
            self.fill(whole.get_mut(message::FIXED..).unwrap_or_default())?;
            match message::decode(&whole)? {
                Answer::Done(of) if of == serial => return Ok(()),
                Answer::Refused(of, error) if of == serial => return Err(refused(&error)),
                Answer::Done(_) | Answer::Refused(..) | Answer::Other => {}
            }
        }
    }

    /// Reads exactly that much, or fails at the deadline.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|it| !it.is_empty()) {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out("the session bus did not answer"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(rest) {
                Ok(0) => return Err(refused("the end of the connection")),
                Ok(length) => filled += length,
                // Back to the deadline, which has passed or has not.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn refused(answer: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionRefused,
        format!("the session bus answered `{}`", answer.escape_default()),
    )
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {} s", PATIENCE.as_secs()))
}

#[cfg(test)]
mod tests;
