//! A tree of the host's, on its way into a sandbox.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::Path,
};

use bulkhead_guest::{
    protocol::files::{Facts, Kind, Record},
    wire::{encode, encode_data},
};
use rustix::fs::OFlags;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::FileError;

/// As much as is sent at once.
const CHUNK: usize = 32 << 10;

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of files.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// What is of a kind that is not sent (pipes, sockets, devices), or cannot be read.
    pub skipped: Vec<Vec<u8>>,
}

/// Writes the file or directory `top`, a link only if it is `top` being followed; links inside are
/// sent as links. `progress` hears of every chunk.
pub async fn send(
    top: &Path,
    to: &mut (impl AsyncWrite + Unpin),
    mut progress: impl FnMut(&Sent),
) -> Result<Sent, FileError> {
    let mut sent = Sent::default();
    let mut left = vec![(top.to_path_buf(), Vec::new())];
    while let Some((path, name)) = left.pop() {
        let metadata =
            if name.is_empty() { path.metadata()? } else { path.symlink_metadata()? };
        let mut facts = facts(&metadata);
        match facts.kind {
            Kind::Fifo | Kind::Socket | Kind::Device => {
                sent.skipped.push(name);
                continue;
            }
            Kind::Link => {
                let target = std::fs::read_link(&path)?;
                facts.target = Some(target.into_os_string().as_encoded_bytes().to_vec());
                record(to, &Record::Entry { path: name, facts }).await?;
            }
            Kind::Dir => {
                let entries = match std::fs::read_dir(&path) {
                    Err(_) if !name.is_empty() => {
                        sent.skipped.push(name);
                        continue;
                    }
                    entries => entries?,
                };
                for entry in entries {
                    let entry = entry?;
                    let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
                    let inside = [&name, slash, entry.file_name().as_bytes()].concat();
                    left.push((entry.path(), inside));
                }
                record(to, &Record::Entry { path: name, facts }).await?;
            }
            Kind::File => {
                let mut file = match open(&path) {
                    Ok(Some(file)) => file,
                    Err(error) if name.is_empty() => return Err(error.into()),
                    Ok(None) | Err(_) => {
                        sent.skipped.push(name);
                        continue;
                    }
                };
                record(to, &Record::Entry { path: name, facts }).await?;
                pour(&mut file, to, &mut sent, &mut progress).await?;
                record(to, &Record::FileEnd).await?;
            }
        }
        sent.entries += 1;
        progress(&sent);
    }
    record(to, &Record::End).await?;
    to.flush().await?;
    Ok(sent)
}

/// Writes the bytes of `file`.
async fn pour(
    file: &mut File,
    to: &mut (impl AsyncWrite + Unpin),
    sent: &mut Sent,
    progress: &mut impl FnMut(&Sent),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        let bytes = chunk.get(..count).unwrap_or_default();
        to.write_all(&encode_data(0, bytes)).await?;
        sent.bytes += u64::try_from(count).unwrap_or_default();
        progress(sent);
    }
}

async fn record(to: &mut (impl AsyncWrite + Unpin), record: &Record) -> io::Result<()> {
    to.write_all(&encode(record)?).await
}

/// Opens a file that was one a moment ago; `None` if it is none now.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

fn facts(metadata: &Metadata) -> Facts {
    let kind = metadata.file_type();
    let kind = if kind.is_dir() {
        Kind::Dir
    } else if kind.is_symlink() {
        Kind::Link
    } else if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_socket() {
        Kind::Socket
    } else if kind.is_block_device() || kind.is_char_device() {
        Kind::Device
    } else {
        Kind::File
    };
    Facts {
        kind,
        size: metadata.size(),
        mode: metadata.mode() & 0o777,
        owner: (0, 0),
        modified: (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or_default()),
        target: None,
        notes: Vec::new(),
    }
}
