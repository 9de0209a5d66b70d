//! The readers of what a guest says, for fuzzers and generated tests. Nothing else uses this.

use bulkhead_guest::{
    protocol::{MOST_TO_GUEST, MOST_TO_HOST, ToGuest, ToHost},
    wire::{Frame, Inbox, encode},
};
use bulkhead_spec::Stdin;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::{Builder, Runtime},
};

use crate::guest::{
    After, Doors, Link, Order, To,
    files::{Item, Record, Records},
};

/// What a guest says, and what a host says to it: what is read is written the same. Then all of it
/// on a link with a program, a listener, a connection and an order under way.
///
/// # Panics
/// If something is not as it must be.
pub fn guest(bytes: &[u8]) {
    frames::<ToHost>(bytes, MOST_TO_HOST);
    frames::<ToGuest>(bytes, MOST_TO_GUEST);
    if let Some(runtime) = runtime() {
        runtime.block_on(linked(bytes));
    }
}

fn frames<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    most: usize,
) {
    let mut inbox = Inbox::new(most);
    for piece in bytes.chunks(61) {
        inbox.push(piece);
        loop {
            match inbox.frame::<T>() {
                Ok(Some(Frame::Message(message))) => {
                    let Ok(frame) = encode(&message) else { continue };
                    let mut again = Inbox::new(frame.len());
                    again.push(&frame);
                    let read = again.message::<T>().ok().flatten();
                    assert_eq!(read, Some(message));
                }
                Ok(Some(Frame::Data { bytes, .. })) => assert!(bytes.len() <= most, "too much"),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Everything that can be asked of a guest is asked, and `bytes` are all that it says.
async fn linked(bytes: &[u8]) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (from_guest, to_guest) = tokio::io::split(ours);
    let link = Link::over_stream(from_guest, to_guest);
    let order = |terminal| Order {
        argv: vec![b"true".to_vec()],
        env: Vec::new(),
        dir: b"/".to_vec(),
        stdin: Stdin::Piped,
        terminal,
        after: After::Stay,
    };
    let programs = [link.begin(order(None)), link.begin(order(None))];
    let asked = async {
        let doors = Doors { most: 4, ..Doors::default() };
        let files = link.files();
        let (listener, connected, list, read) = tokio::join!(
            link.listen(doors),
            link.connect(To::Port(80)),
            files.list(b"/", 2, 16),
            files.read(b"/x", 0, None),
        );
        if let Ok(mut channel) = connected {
            let mut heard = Vec::new();
            drop(channel.read_to_end(&mut heard).await);
        }
        drop((listener, list, read, programs));
    };
    let said = async {
        let (mut hears, mut says) = tokio::io::split(theirs);
        // What it says is within what the stream holds, or the rest is not heard.
        let said = bytes.get(..bytes.len().min(1 << 20)).unwrap_or_default();
        let speaking = async {
            drop(says.write_all(said).await);
            drop(says.shutdown().await);
        };
        let mut orders = Vec::new();
        tokio::join!(speaking, hears.read_to_end(&mut orders)).1
    };
    // A guest that stops to speak has ended, and then everybody who waits is told.
    tokio::select! {
        () = async { asked.await; link.ended().await } => {}
        heard = said => drop(heard),
    }
}

/// A tree that a guest sends: no name in it leads elsewhere.
///
/// # Panics
/// If one does.
pub fn tree(bytes: &[u8]) {
    let Some(runtime) = runtime() else { return };
    runtime.block_on(async {
        let mut records = Records::new(bytes);
        while let Ok(Some(item)) = records.next().await {
            if let Item::Record(Record::Entry { path, .. }) = item {
                let climbs = path.split(|it| *it == b'/').any(|it| it == b"..");
                assert!(!climbs && !path.starts_with(b"/") && !path.contains(&0), "{path:?}");
            }
        }
    });
}

fn runtime() -> Option<Runtime> {
    Builder::new_current_thread().enable_all().build().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_fuzzers_begin_with_is_read() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (name, check) in
            [("guest", super::guest as fn(&[u8])), ("tree", super::tree as fn(&[u8]))]
        {
            let mut count = 0;
            for seed in seeds.join(name).read_dir().unwrap() {
                check(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert_ne!(count, 0, "{name}");
        }
    }
}
