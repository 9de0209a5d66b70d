//! A bare relay: two threads a connection, a pipe each, and nothing else. What is faster than this
//! does not carry bytes through a process.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

/// How much a pipe holds: what was fastest of 64 KiB to 1 MiB.
const ROOM: usize = 512 << 10;

/// Relays from the port that is returned to `to`, for as long as this process lives.
pub(super) fn start(to: u16) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drop(relay(&stream, to)));
        }
    });
    Ok(port)
}

fn relay(inside: &TcpStream, to: u16) -> io::Result<()> {
    inside.set_nodelay(true)?;
    let outside = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    outside.set_nodelay(true)?;
    thread::scope(|scope| {
        scope.spawn(|| drop(carry(inside, &outside)));
        carry(&outside, inside)
    })
}

fn carry(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::pipe::fcntl_setpipe_size(&write, ROOM)?;
    loop {
        let mut left = splice(from, None, &write, None, ROOM, SpliceFlags::MOVE)?;
        if left == 0 {
            return to.shutdown(Shutdown::Write);
        }
        while left > 0 {
            left -= splice(&read, None, to, None, left, SpliceFlags::MOVE)?;
        }
    }
}
