//! Where the next start finds the stand-ins of a sandbox whose Bulkhead was killed.
//!
//! Invariant: a record is locked by whoever lives, and is empty when there is nothing to find.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use bulkhead_linux::listing::entries;
use rustix::fs::{FileType, FlockOperation, OFlags, flock};

use super::is_alone;
use crate::workspace::share::path_of;

/// More than anybody writes.
const LONGEST: u64 = 1 << 20;

/// How many files are kept for the next sandboxes: to make and remove one takes a filesystem longer
/// than all else that is done with it.
const KEPT: u32 = 8;

/// One record, locked.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: File,
    after: After,
}

/// What becomes of a file that is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// Another sandbox uses it.
    Kept,
    Removed,
}

fn dir(state: &Path) -> PathBuf {
    state.join("stand-ins")
}

/// Where what is used again waits for the next sandboxes.
pub(super) fn spares(state: &Path) -> PathBuf {
    dir(state).join("spare")
}

impl Record {
    /// Writes down that `paths` are stand-ins of the sandbox `id`.
    pub(super) fn write<'a>(
        state: &Path,
        id: &str,
        paths: impl Iterator<Item = &'a Path>,
    ) -> io::Result<Self> {
        let record = match Self::spare(state)? {
            Some(record) => record,
            None => Self::new(dir(state).join(id))?,
        };
        let mut content = id.as_bytes().to_vec();
        for it in paths {
            content.push(0);
            content.extend_from_slice(it.as_os_str().as_encoded_bytes());
        }
        (&record.file).write_all(&content)?;
        Ok(record)
    }

    /// A file that nobody uses and that tells of nobody.
    fn spare(state: &Path) -> io::Result<Option<Self>> {
        let spares = spares(state);
        let first = std::process::id();
        for step in 0..KEPT {
            let path = spares.join(format!("record-{}", first.wrapping_add(step) % KEPT));
            let file = match open(&path, OpenOptions::new().create(true).truncate(false)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    std::fs::create_dir_all(&spares)?;
                    open(&path, OpenOptions::new().create(true).truncate(false))?
                }
                file => file?,
            };
            if is_alone(&file)? && file.metadata()?.len() == 0 {
                return Ok(Some(Self { path, file, after: After::Kept }));
            }
        }
        Ok(None)
    }

    fn new(path: PathBuf) -> io::Result<Self> {
        let file = open(&path, OpenOptions::new().create_new(true))?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(Self { path, file, after: After::Removed })
    }

    /// Whose stand-ins it tells of, and where they are.
    pub(super) fn read(&self) -> io::Result<(String, Vec<PathBuf>)> {
        let mut content = Vec::new();
        (&self.file).take(LONGEST).read_to_end(&mut content)?;
        let mut parts = content.split(|it| *it == 0);
        let id = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        Ok((id, parts.map(|it| path_of(it.to_vec())).collect()))
    }

    fn tells(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() != 0)
    }

    /// There is nothing to find any more.
    pub(super) fn clear(&self) -> io::Result<()> {
        match self.after {
            After::Kept => self.file.set_len(0),
            After::Removed => std::fs::remove_file(&self.path),
        }
    }
}

/// The records of sandboxes whose Bulkhead is gone.
pub(super) fn abandoned(state: &Path) -> io::Result<Vec<Record>> {
    // Looked at again when it is ours, for its owner may have cleared it and gone in between.
    let left = |it: &Record| Ok::<_, io::Error>(is_alone(&it.file)? && it.tells()?);
    let mut found = Vec::new();
    for record in telling(state)? {
        if left(&record)? {
            found.push(record);
        }
    }
    Ok(found)
}

/// Whether a living sandbox, none of the `abandoned`, says that `path` is one of its stand-ins.
pub(super) fn living_tells_of(
    state: &Path,
    path: &Path,
    abandoned: &[Record],
) -> io::Result<bool> {
    for record in telling(state)? {
        let dead = abandoned.iter().any(|it| it.path == record.path);
        if !dead && !is_alone(&record.file)? && record.read()?.1.iter().any(|it| it == path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every record that tells of somebody.
fn telling(state: &Path) -> io::Result<Vec<Record>> {
    let mut found = Vec::new();
    for (dir, after) in [(dir(state), After::Removed), (spares(state), After::Kept)] {
        let entries = match entries(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries.filter(|it| it.kind == FileType::RegularFile) {
            let path = entry.path(&dir);
            // Those of others may go while we look.
            let Ok(file) = open(&path, &mut OpenOptions::new()) else { continue };
            let record = Record { path, file, after };
            if record.tells()? {
                found.push(record);
            }
        }
    }
    Ok(found)
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    options.read(true).write(true).mode(0o600).custom_flags(flags).open(path)
}
