//! What a sandbox will see at a path, found without mounting anything.

use std::{fs::File, io::Read as _, os::fd::OwnedFd};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fgetxattr, openat, statat},
    io::Errno,
};

use super::InUse;

/// What the layers have at a path together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// Something else: a symbolic link, there or on the way, or a pipe.
    Other,
}

/// What one layer says about a path.
enum Said {
    /// It has it.
    Is(FileType, OwnedFd),
    /// It has nothing to say.
    Nothing,
    /// Neither it nor any layer below has it.
    Gone,
    /// It leads elsewhere.
    Elsewhere,
}

impl InUse {
    /// What is at `path`, which is relative to the root.
    pub fn look(&self, path: &str) -> Seen {
        self.find(path).0
    }

    /// The content of the file at `path`, if it is one and at most so long.
    pub fn text(&self, path: &str, most: u64) -> Option<String> {
        let (Seen::File, Some((dir, name))) = self.find(path) else { return None };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&dir, name, flags, Mode::empty()).ok()?);
        let mut text = String::new();
        let count = file.take(most + 1).read_to_string(&mut text).ok()?;
        (count as u64 <= most).then_some(text)
    }

    fn find<'a>(&self, path: &'a str) -> (Seen, Option<(OwnedFd, &'a str)>) {
        let parts: Vec<&str> = path.split('/').filter(|it| !it.is_empty()).collect();
        let Some((name, parents)) = parts.split_last() else { return (Seen::Directory, None) };
        for layer in &self.held {
            let Ok(root) = layer.try_clone() else { return (Seen::Other, None) };
            match ask(root, parents, name) {
                Ok(Said::Is(FileType::Directory, _)) => return (Seen::Directory, None),
                Ok(Said::Is(FileType::RegularFile, dir)) => {
                    return (Seen::File, Some((dir, name)));
                }
                Ok(Said::Nothing) => {}
                Ok(Said::Gone) => return (Seen::Nothing, None),
                Ok(Said::Is(_, _) | Said::Elsewhere) | Err(_) => return (Seen::Other, None),
            }
        }
        (Seen::Nothing, None)
    }
}

fn ask(root: OwnedFd, parents: &[&str], name: &str) -> Result<Said, Errno> {
    let mut dir = root;
    let mut hidden = hides(&dir);
    for part in parents {
        match kind(&dir, part)? {
            None if hidden => return Ok(Said::Gone),
            None => return Ok(Said::Nothing),
            Some(Found::Removed) => return Ok(Said::Gone),
            Some(Found::Kind(FileType::Directory)) => {
                let flags =
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                dir = openat(&dir, *part, flags, Mode::empty())?;
                hidden |= hides(&dir);
            }
            Some(Found::Kind(_)) => return Ok(Said::Elsewhere),
        }
    }
    Ok(match kind(&dir, name)? {
        None if hidden => Said::Gone,
        None => Said::Nothing,
        Some(Found::Removed) => Said::Gone,
        Some(Found::Kind(kind)) => Said::Is(kind, dir),
    })
}

enum Found {
    Kind(FileType),
    Removed,
}

fn kind(dir: &OwnedFd, name: &str) -> Result<Option<Found>, Errno> {
    let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    // No layer has a device, so this is our own mark.
    let removed = kind == FileType::CharacterDevice
        || (kind == FileType::RegularFile && stat.st_size == 0 && is_marked(dir, name));
    Ok(Some(if removed { Found::Removed } else { Found::Kind(kind) }))
}

fn is_marked(dir: &OwnedFd, name: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty())
        .is_ok_and(|file| fgetxattr(file, "user.overlay.whiteout", &mut [0_u8; 1]).is_ok())
}

fn hides(dir: &OwnedFd) -> bool {
    let mut value = [0_u8; 1];
    fgetxattr(dir, "user.overlay.opaque", &mut value).is_ok() && value == *b"y"
}
