//! What every sandbox of this host has of its own in `/etc` and `/dev`: files and links of ours, and what
//! the host's things are mounted on.
//!
//! To make all that takes a good part of a start, and it is the same each time. So it is laid once in
//! the state directory and shown, to be read only. Small files of the host's settings are
//! copied into it, which saves a mount each. A frame is known by what it was made of: whatever
//! changes on the host makes another one.

use std::{
    ffi::{CString, OsStr},
    fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use bulkhead_linux::steps::{Place, Step};
use rustix::process::geteuid;

use crate::props;

/// What of a root can be shown.
const PARTS: [&[u8]; 2] = [b"/etc/", b"/dev/"];

/// Files that are larger are mounted.
const LARGEST: u64 = 256 << 10;

/// Whether `path` is in a frame.
pub(super) fn holds(path: &[u8]) -> bool {
    PARTS.iter().any(|it| path.starts_with(it))
}

/// One thing of a root, by its path there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Made {
    Dir {
        path: Vec<u8>,
    },
    File {
        path: Vec<u8>,
        content: Box<[u8]>,
    },
    Link {
        path: Vec<u8>,
        to: CString,
    },
    /// What the host has there.
    Copy {
        path: Vec<u8>,
        stamp: Stamp,
    },
}

/// What tells one content of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([u64; 7]);

impl Stamp {
    /// That of a file that may be copied: whoever is inside could read it anyway.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let about = fs::symlink_metadata(path)?;
        let readable = about.is_file() && about.mode() & 0o004 != 0;
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        let [changed, then, noted, when] = times.map(i64::cast_unsigned);
        let stamp = Self([about.dev(), about.ino(), about.size(), changed, then, noted, when]);
        Ok((readable && about.size() <= LARGEST).then_some(stamp))
    }
}

impl Made {
    /// The step that makes it at `place`.
    pub(super) fn step(self, place: Place) -> Step {
        match self {
            Self::Dir { .. } => Step::Dir { path: place, mode: 0o755 },
            Self::File { content, .. } => Step::File { path: place, content },
            Self::Link { to, .. } => Step::Link { path: place, to },
            Self::Copy { .. } => Step::File { path: place, content: Box::default() },
        }
    }

    /// Makes it below `dir`.
    fn lay(&self, dir: &Path) -> io::Result<()> {
        let at = |path: &[u8]| dir.join(OsStr::from_bytes(path.get(1..).unwrap_or_default()));
        match self {
            Self::Dir { path } => props::directory(&at(path)),
            Self::File { path, content } => props::file(&at(path), content, 0o444),
            Self::Link { path, to } => symlink(OsStr::from_bytes(to.to_bytes()), at(path)),
            Self::Copy { path, stamp } => {
                let from = Path::new(OsStr::from_bytes(path));
                let content = fs::read(from)?;
                if Stamp::of(from)? != Some(*stamp) {
                    return Err(io::Error::other("a file of the host's has changed"));
                }
                props::file(&at(path), &content, 0o444)
            }
        }
    }

    /// Passes what it is to `sum`, without what could be taken for another.
    fn feed(&self, sum: &mut Sum) {
        match self {
            Self::Dir { path } => sum.add(b"d", path),
            Self::File { path, content } => {
                sum.add(b"f", path);
                sum.add(b"", content);
            }
            Self::Link { path, to } => {
                sum.add(b"l", path);
                sum.add(b"", to.to_bytes());
            }
            Self::Copy { path, stamp } => {
                sum.add(b"c", path);
                for it in stamp.0 {
                    sum.add(b"", &it.to_ne_bytes());
                }
            }
        }
    }
}

/// A number that differs with what is added (FNV-1a).
struct Sum(u64);

impl Sum {
    fn add(&mut self, kind: &[u8], bytes: &[u8]) {
        let length = (bytes.len() as u64).to_ne_bytes();
        for byte in kind.iter().chain(&length).chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A frame that is laid, or is to be.
#[derive(Debug)]
pub(super) struct Frame {
    dir: PathBuf,
    made: Vec<Made>,
}

impl Frame {
    /// The one that consists of `made`.
    pub(super) fn of(state: &Path, made: Vec<Made>) -> Self {
        let mut sum = Sum(0xcbf2_9ce4_8422_2325);
        for it in &made {
            it.feed(&mut sum);
        }
        Self { dir: state.join("frames").join(format!("{:016x}", sum.0)), made }
    }

    /// Whether it is there, and nobody else's.
    pub(super) fn is_laid(&self) -> bool {
        fs::symlink_metadata(&self.dir)
            .is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
    }

    /// A part of it.
    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Lays it for those who come next.
    pub(super) fn lay(&self) -> io::Result<()> {
        props::lay_in(&self.dir, |draft| {
            props::directory(&draft.join("etc"))?;
            props::directory(&draft.join("dev"))?;
            self.made.iter().try_for_each(|it| it.lay(draft))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::{Frame, Made, Stamp};

    fn file(path: &str, content: &str) -> Made {
        Made::File { path: path.into(), content: content.as_bytes().into() }
    }

    #[test]
    fn a_frame_is_laid_whole_and_found_by_what_it_is_made_of() {
        let state = tempfile::tempdir().unwrap();
        let of = |content| {
            let dir = Made::Dir { path: b"/etc/ssl".to_vec() };
            let link =
                Made::Link { path: b"/dev/fd".to_vec(), to: c"/proc/self/fd".to_owned() };
            Frame::of(state.path(), vec![dir, link, file("/etc/group", content)])
        };
        assert!(!of("a").is_laid());
        of("a").lay().unwrap();
        assert!(of("a").is_laid() && !of("b").is_laid());
        let group = of("a").part("etc").join("group");
        assert_eq!(fs::read_to_string(&group).unwrap(), "a");
        assert_eq!(fs::metadata(&group).unwrap().permissions().mode() & 0o777, 0o444);
        assert!(of("a").part("etc").join("ssl").is_dir());
        // Whoever comes second finds it.
        of("a").lay().unwrap();
    }

    #[test]
    fn what_of_the_hosts_files_is_copied_is_what_was_looked_at() {
        let state = tempfile::tempdir().unwrap();
        let host = state.path().join("host");
        let write = |text: &str| fs::write(&host, text).unwrap();
        let stamp = || Stamp::of(&host).unwrap();
        write("one");
        let before = stamp().unwrap();
        write("other");
        assert_ne!(stamp(), Some(before));
        let path = host.as_os_str().as_encoded_bytes().to_vec();
        let old = Frame::of(state.path(), vec![Made::Copy { path, stamp: before }]);
        assert!(old.lay().is_err() && !old.is_laid());
        // What not everybody may read is not copied.
        fs::set_permissions(&host, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(stamp(), None);
    }
}
