//! Passes packets between the cable of one sandbox and its neighbours.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bulkhead_backends::cable::NETWORK;
use bulkhead_spec::NeighbourUsage;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
    pipe::{PipeFlags, pipe_with},
};

use super::{
    packet::{self, Packet},
    register::Seat,
};

/// How long one packet waits for a neighbour whose supervisor does not take it.
const PATIENCE: Duration = Duration::from_millis(100);

/// Two threads, one for each direction. Dropping it ends them.
pub(super) struct Switch {
    stop: Option<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    passed: Arc<Passed>,
}

/// Bytes that were passed on.
#[derive(Default)]
struct Passed {
    up: AtomicU64,
    down: AtomicU64,
}

impl Switch {
    pub(super) fn start(
        seat: &Arc<Seat>,
        cable: OwnedFd,
        closed: BTreeSet<u16>,
    ) -> io::Result<Self> {
        seat.socket.set_write_timeout(Some(PATIENCE))?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let passed = Arc::<Passed>::default();
        let seat = Arc::clone(seat);
        let end = Arc::new(End { seat, cable, stopped, closed, passed: Arc::clone(&passed) });
        let mut switch = Self { stop: Some(stop), threads: Vec::new(), passed };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let out = Arc::clone(&end);
        switch.threads.push(named("bulkhead-lan-out").spawn(move || out.pass_out())?);
        switch.threads.push(named("bulkhead-lan-in").spawn(move || end.pass_in())?);
        Ok(switch)
    }

    /// What has passed until now.
    pub(super) fn usage(&self) -> NeighbourUsage {
        let Passed { up, down } = &*self.passed;
        NeighbourUsage { up: up.load(Relaxed), down: down.load(Relaxed) }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // It can only have panicked, and then it is gone as well.
            drop(thread.join());
        }
    }
}

/// What both directions need.
struct End {
    seat: Arc<Seat>,
    cable: OwnedFd,
    /// Ends when nobody wants packets to be passed any more.
    stopped: OwnedFd,
    /// Ports of the sandbox that are its gateway's.
    closed: BTreeSet<u16>,
    passed: Arc<Passed>,
}

impl End {
    fn pass_out(&self) {
        let mut buffer = vec![0; packet::MOST];
        while self.is_ready(self.cable.as_fd()) {
            match recv(&self.cable, buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => self.out(buffer.get(..length).unwrap_or_default()),
                Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => {}
                Err(_) => return,
            }
        }
    }

    fn pass_in(&self) {
        let mut buffer = vec![0; packet::MOST];
        while self.is_ready(self.seat.socket.as_fd()) {
            match self.seat.socket.recv(&mut buffer) {
                Ok(length) => self.take_in(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Whether there is something to read; not, when all is over.
    fn is_ready(&self, from: BorrowedFd<'_>) -> bool {
        let mut wanted = [
            PollFd::from_borrowed_fd(from, PollFlags::IN),
            PollFd::new(&self.stopped, PollFlags::IN),
        ];
        loop {
            match poll(&mut wanted, None) {
                Ok(_) => return wanted.get(1).is_some_and(|it| it.revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Sends on what the sandbox has sent, if it is its own and for a neighbour.
    fn out(&self, bytes: &[u8]) {
        let Some(packet) = packet::read(bytes) else { return };
        let own = self.seat.address();
        if packet.from != own || packet.to == own || !is_neighbour(&packet) {
            return;
        }
        let Err(error) = self.seat.send(bytes, packet.to) else {
            self.passed.up.fetch_add(packet.length as u64, Relaxed);
            return;
        };
        // One that stands still is there; packets are lost now and then.
        let answers = packet.answerable && error.kind() != io::ErrorKind::WouldBlock;
        if let (true, Some(answer)) = (answers, packet::refusal(bytes, &packet)) {
            self.give(&answer);
        }
    }

    /// Hands the sandbox what a neighbour has sent, if it is for it.
    fn take_in(&self, bytes: &[u8]) {
        let Some(packet) = packet::read(bytes) else { return };
        let own = self.seat.address();
        if packet.to != own || packet.from == own || !is_neighbour(&packet) {
            return;
        }
        if packet.port.is_some_and(|it| self.closed.contains(&it)) {
            if let Some(answer) = packet::refusal(bytes, &packet) {
                // Whoever is gone needs no answer.
                self.seat.send(&answer, packet.from).unwrap_or_default();
            }
            return;
        }
        self.passed.down.fetch_add(packet.length as u64, Relaxed);
        self.give(bytes);
    }

    /// Packets for which there is no room are lost.
    fn give(&self, bytes: &[u8]) {
        if let Err(error) = send(&self.cable, bytes, SendFlags::empty()) {
            tracing::trace!(%error, "a packet is lost");
        }
    }
}

/// Whether both ends are addresses of such networks.
fn is_neighbour(packet: &Packet) -> bool {
    let ours = |octets: [u8; 4]| {
        octets.first_chunk::<3>() == NETWORK.octets().first_chunk::<3>()
            && !matches!(octets[3], 0 | 255)
    };
    ours(packet.from.octets()) && ours(packet.to.octets())
}
