//! Bytes both ways, under a permit, until somebody has had enough.

mod pipes;

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bulkhead_policy::Verdict;
use bulkhead_spec::EgressEvent;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    gate::Permit,
    room::Room,
    wire::{End, Wire},
};

/// How much is carried in one go where the kernel cannot carry it alone.
const CHUNK: usize = 64 << 10;

/// Carries bytes between `inside` and `outside` until both are done, a limit is reached, nothing
/// happens for too long, or the rules change and do not allow it any more.
pub(crate) async fn relay(room: &Room, permit: &Permit, inside: Wire, outside: Wire) {
    let moved = Moved::default();
    let ended = tokio::select! {
        ended = carry(permit, inside, outside, &moved) => ended,
        () = idle(room, &moved) => Err(io::ErrorKind::TimedOut.into()),
        () = forbidden(room, permit) => Err(io::ErrorKind::PermissionDenied.into()),
    };
    if let Err(error) = ended {
        tracing::debug!(to = %permit.destination(), %error, "a connection was cut");
    }
    let to = permit.destination();
    room.report.list(EgressEvent::Closed {
        host: to.host.clone(),
        port: to.port,
        up: moved.up.load(Relaxed),
        down: moved.down.load(Relaxed),
    });
}

/// What one connection has moved.
#[derive(Default)]
struct Moved {
    up: AtomicU64,
    down: AtomicU64,
}

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

impl Moved {
    fn add(&self, way: Way, permit: &Permit, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let counted = match way {
            Way::Up => {
                self.up.fetch_add(bytes, Relaxed);
                permit.toll().up(bytes)
            }
            Way::Down => {
                self.down.fetch_add(bytes, Relaxed);
                permit.toll().down(bytes)
            }
        };
        counted.map_err(|why| io::Error::new(io::ErrorKind::QuotaExceeded, why))
    }
}

async fn carry(
    permit: &Permit,
    mut inside: Wire,
    mut outside: Wire,
    moved: &Moved,
) -> io::Result<()> {
    let (early, late) = (inside.ahead.split(), outside.ahead.split());
    if !early.is_empty() {
        moved.add(Way::Up, permit, early.len())?;
        outside.write_all(&early).await?;
        outside.flush().await?;
    }
    if !late.is_empty() {
        moved.add(Way::Down, permit, late.len())?;
        inside.write_all(&late).await?;
        inside.flush().await?;
    }
    match (inside.end, outside.end) {
        (End::Tcp(inside), End::Tcp(outside)) => {
            let up = splice(&inside, &outside, |bytes| moved.add(Way::Up, permit, bytes));
            let down = splice(&outside, &inside, |bytes| moved.add(Way::Down, permit, bytes));
            tokio::try_join!(up, down).map(drop)
        }
        (inside, outside) => {
            let (from_inside, to_inside) = tokio::io::split(whole(inside));
            let (from_outside, to_outside) = tokio::io::split(whole(outside));
            let up = copy(from_inside, to_outside, |bytes| moved.add(Way::Up, permit, bytes));
            let down =
                copy(from_outside, to_inside, |bytes| moved.add(Way::Down, permit, bytes));
            tokio::try_join!(up, down).map(drop)
        }
    }
}

fn whole(end: End) -> Wire {
    Wire { end, ahead: bytes::BytesMut::new() }
}

/// Lets the kernel carry bytes from one socket to the other, without showing them to us.
async fn splice(
    from: &TcpStream,
    to: &TcpStream,
    moved: impl Fn(usize) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        from.readable().await?;
        // Held only while bytes are on their way: idle connections have none.
        let pipe = pipes::take()?;
        let Some(mut left) = pipe.fill(from)? else {
            pipe.give_back();
            continue;
        };
        if left == 0 {
            pipe.give_back();
            return rustix::net::shutdown(to, rustix::net::Shutdown::Write)
                .or_else(|error| match error {
                    // It has gone already; the other direction finds out by itself.
                    rustix::io::Errno::NOTCONN => Ok(()),
                    other => Err(other),
                })
                .map_err(io::Error::from);
        }
        moved(left)?;
        while left > 0 {
            if let Some(taken) = pipe.drain(to, left)? {
                left -= taken;
                continue;
            }
            // Whoever sends need not wait for whoever reads, as long as there is room.
            if let Some(more) = pipe.top_up(from, left)? {
                moved(more)?;
                left += more;
            }
            to.writable().await?;
        }
        pipe.give_back();
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: impl Fn(usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = from.read(&mut buffer).await?;
        let Some(bytes) = buffer.get(..read).filter(|it| !it.is_empty()) else {
            return to.shutdown().await;
        };
        moved(read)?;
        to.write_all(bytes).await?;
        to.flush().await?;
    }
}

/// Ends when nothing has moved for too long.
async fn idle(room: &Room, moved: &Moved) {
    let so_far = || moved.up.load(Relaxed) + moved.down.load(Relaxed);
    let mut before = None;
    while before != Some(so_far()) {
        before = Some(so_far());
        tokio::time::sleep(room.timings.idle).await;
    }
}

/// Ends when the rules have changed and do not allow this any more.
pub(crate) async fn forbidden(room: &Room, permit: &Permit) {
    let mut rules = room.watch_rules();
    let to = permit.destination();
    loop {
        let verdict = rules.borrow_and_update().judge(&to.host, to.port);
        match room.neighbourly(permit, verdict) {
            Verdict::Denied(_) => return,
            Verdict::Allowed(_) => {}
        }
        if rules.changed().await.is_err() {
            // Nobody is left to change them.
            std::future::pending::<()>().await;
        }
    }
}
