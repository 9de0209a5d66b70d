//! Who is in a network, by which name and address.
//!
//! A network is a directory with a file for each address that was ever taken; the file says who has
//! it, and a lock on it that the holder lives. Next to it is the socket at which the holder takes
//! packets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    net::Ipv4Addr,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::{DirBuilderExt as _, OpenOptionsExt as _},
            net::UnixDatagram,
        },
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::Duration,
};

use bulkhead_backends::{cable::NETWORK, guest::Link};
use bulkhead_spec::Label;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// The most members of one network: what fits in its addresses.
const MOST: u8 = 254;

/// Whoever looks for a name holds its lock for a moment, and may be taken for its owner.
const TRIES: u32 = 5;
const MOMENT: Duration = Duration::from_millis(20);

/// Why there is no place in a network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinFailed {
    /// Somebody else has the name.
    #[error("there is a sandbox called `{name}` in the network `{network}` already")]
    Taken {
        /// Which name.
        name: Label,
        /// In which network.
        network: Label,
    },
    /// Every address is somebody's.
    #[error("the network `{network}` has no address left")]
    Full {
        /// Which.
        network: Label,
    },
    /// The directory or a socket in it.
    #[error("could not join the network `{network}`")]
    System {
        /// Which.
        network: Label,
        /// Why.
        source: io::Error,
    },
}

/// A name and an address in a network, for as long as it is held.
pub(super) struct Seat {
    /// Who dials for the sandbox, once there is one.
    pub(super) link: OnceLock<Link>,
    network: Label,
    number: u8,
    /// Kept open so that the sockets in it have short names.
    dir: File,
    pub(super) socket: UnixDatagram,
    path: PathBuf,
    /// The lock, and the file that says whose it is.
    held: File,
}

impl Seat {
    pub(super) fn take(
        networks: &Path,
        network: &Label,
        name: &Label,
    ) -> Result<Self, JoinFailed> {
        let system =
            |source: io::Error| JoinFailed::System { network: network.clone(), source };
        let dir = networks.join(network.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(system)?;
        let turn = open(&dir.join("turn")).map_err(system)?;
        // Held by whoever takes a place, for as long as that takes.
        flock(&turn, FlockOperation::LockExclusive).map_err(|it| system(it.into()))?;
        let (number, mut held) = free(&dir, network, name)?;
        let path = dir.join(format!("{number}.sock"));
        let mut seated = || {
            held.set_len(0)?;
            held.write_all(name.as_str().as_bytes())?;
            let handle = File::open(&dir)?;
            // What a killed holder left.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let socket = UnixDatagram::bind(short(&handle, number))?;
            Ok((handle, socket))
        };
        let (dir, socket) = seated().map_err(system)?;
        Ok(Self {
            link: OnceLock::new(),
            network: network.clone(),
            number,
            dir,
            socket,
            path,
            held,
        })
    }

    pub(super) fn network(&self) -> &Label {
        &self.network
    }

    pub(super) fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// Sends `packet` to the supervisor of whoever has `to`.
    pub(super) fn send(&self, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
        let [.., number] = to.octets();
        self.socket.send_to(packet, short(&self.dir, number)).map(drop)
    }

    /// The address of the neighbour called `name`, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<Ipv4Addr> {
        let dir = self.path.parent()?;
        let number = seats(dir).ok()?.into_iter().find(|number| {
            fs::read_to_string(dir.join(number.to_string())).is_ok_and(|it| it == name)
                && is_held(&dir.join(number.to_string()))
        })?;
        Some(address(number))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The lock goes with the file; without them it is a name that nobody has, which is found
        // out when it is looked for.
        self.held.set_len(0).unwrap_or_default();
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

fn address(number: u8) -> Ipv4Addr {
    let [first, second, third, _] = NETWORK.octets();
    Ipv4Addr::new(first, second, third, number)
}

/// The socket of `number` by a name that is short enough for every directory.
fn short(dir: &File, number: u8) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{number}.sock", dir.as_raw_fd()))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// The addresses that were ever taken.
fn seats(dir: &Path) -> io::Result<Vec<u8>> {
    let entries = fs::read_dir(dir)?;
    let numbers = entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

fn is_held(path: &Path) -> bool {
    let looked = File::open(path).map(|it| flock(&it, FlockOperation::NonBlockingLockShared));
    matches!(looked, Ok(Err(Errno::WOULDBLOCK)))
}

/// The lowest address that is nobody's, locked, if nobody is called `name`.
fn free(dir: &Path, network: &Label, name: &Label) -> Result<(u8, File), JoinFailed> {
    let system = |source: io::Error| JoinFailed::System { network: network.clone(), source };
    for left in (0..TRIES).rev() {
        match look(dir, name).map_err(system)? {
            Looked::Free(number, file) => return Ok((number, file)),
            Looked::Full => return Err(JoinFailed::Full { network: network.clone() }),
            Looked::Taken if left == 0 => break,
            Looked::Taken => thread::sleep(MOMENT),
        }
    }
    Err(JoinFailed::Taken { name: name.clone(), network: network.clone() })
}

enum Looked {
    Free(u8, File),
    Taken,
    Full,
}

fn look(dir: &Path, name: &Label) -> io::Result<Looked> {
    let known = seats(dir)?;
    let mut found = None;
    for number in 1..=MOST {
        if found.is_some() && !known.contains(&number) {
            continue;
        }
        let mut file = open(&dir.join(number.to_string()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if found.is_none() => found = Some((number, file)),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder)?;
                if holder == name.as_str() {
                    return Ok(Looked::Taken);
                }
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found.map_or(Looked::Full, |(number, file)| Looked::Free(number, file)))
}
