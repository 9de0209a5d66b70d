//! A list of steps that knows which directories it has made.

use std::{
    borrow::Cow,
    ffi::{CStr, CString, OsStr},
    path::{Path, PathBuf},
};

use bulkhead_linux::{
    mounts::{Attributes, Inode, Looked},
    steps::{Place, Step, Way},
};
use rustix::fs::FileType;

use super::Line;
use crate::native::frame::{self, Made, Stamp};

#[derive(Debug)]
pub(super) struct Steps {
    pub(super) lines: Vec<Line>,
    /// Who made the root.
    root: Way,
    made: Paths,
    /// Where something of the host's is mounted: nothing is made below.
    covered: Paths,
    /// What is not made but shown, if that can be.
    frame: Option<Vec<Made>>,
}

/// Some paths, kept and compared as bytes, those of one length together: `Path` compares part by
/// part, which for a list of this length takes longer than the kernel takes for half of it.
#[derive(Debug, Default)]
struct Paths(Vec<Vec<Vec<u8>>>);

impl Paths {
    fn insert(&mut self, path: &[u8]) {
        let length = path.len();
        if self.0.len() <= length {
            self.0.resize_with(length + 1, Vec::new);
        }
        if !self.contains(path)
            && let Some(alike) = self.0.get_mut(length)
        {
            alike.push(path.to_vec());
        }
    }

    fn contains(&self, path: &[u8]) -> bool {
        self.0.get(path.len()).is_some_and(|alike| alike.iter().any(|it| it == path))
    }

    /// Whether `path` or a directory above it is among them.
    fn hold(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().skip(1).filter(|(_, it)| **it == b'/');
        let ends = slashes.map(|(at, _)| at).chain([path.len()]);
        let mut above = ends.filter_map(|end| path.get(..end));
        self.contains(b"/") || above.any(|it| self.contains(it))
    }
}

/// A path in the one spelling in which equal paths have equal bytes.
fn plain(path: &Path) -> Cow<'_, [u8]> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    if bytes.windows(2).any(odd) || (1 < bytes.len() && bytes.ends_with(b"/")) {
        let path: PathBuf = path.components().collect();
        return Cow::Owned(path.into_os_string().into_encoded_bytes());
    }
    Cow::Borrowed(bytes)
}

/// The directory that holds a path of that spelling; nothing holds `/`.
fn parent(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|it| *it == b'/')? {
        0 if path.len() == 1 => None,
        0 => Some(b"/"),
        slash => path.get(..slash),
    }
}

/// `path` as the steps know it: below `new`.
pub(super) fn inside(path: &Path) -> CString {
    below(b"new", path.as_os_str().as_encoded_bytes())
}

/// A directory of the base.
pub(super) fn base(path: &CStr) -> Place {
    Place { path: path.to_owned(), way: Way::Ours }
}

/// `path` of the host as the steps know it.
pub(super) fn outside(path: &Path) -> CString {
    below(b"", path.as_os_str().as_encoded_bytes())
}

/// `path` of the host where it lies in the base under its own name.
pub(super) fn staged(path: &Path) -> CString {
    below(b".", path.as_os_str().as_encoded_bytes())
}

fn below(base: &[u8], path: &[u8]) -> CString {
    // Paths of a plan have no NUL: `GuestPath` and `HostPath` refuse it. One byte more for the end.
    let mut whole = Vec::with_capacity(base.len() + path.len() + 1);
    whole.extend_from_slice(base);
    whole.extend_from_slice(path);
    CString::new(whole).unwrap_or_default()
}

impl Steps {
    /// An empty list for a root of which `root` made the directories.
    pub(super) fn new(root: Way) -> Self {
        let (made, covered) = (Paths::default(), Paths::default());
        Self { lines: Vec::new(), root, made, covered, frame: None }
    }

    /// The same, for a root whose `/etc` and `/dev` are shown.
    pub(super) fn framed(root: Way) -> Self {
        Self { frame: Some(Vec::new()), ..Self::new(root) }
    }

    /// What is to be shown instead of made.
    pub(super) fn frame(&mut self) -> Vec<Made> {
        self.frame.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn is_framed(&self) -> bool {
        self.frame.is_some()
    }

    /// Has `path` made, or notes that it is to be shown.
    fn make(&mut self, path: &[u8], made: Made) {
        let place = self.spot(path);
        match &mut self.frame {
            Some(frame) if frame::holds(path) => frame.push(made),
            Some(_) | None => self.push(made.step(place)),
        }
    }

    /// Whether what is at `path` is a copy of what the host has there.
    pub(super) fn copy(&mut self, path: &Path, stamp: Option<Stamp>) -> bool {
        let at = plain(path);
        match (&mut self.frame, stamp) {
            (Some(frame), Some(stamp)) if frame::holds(&at) => {
                frame.push(Made::Copy { path: at.to_vec(), stamp });
                true
            }
            (_, _) => false,
        }
    }

    /// Where `path` is, and how far the way to it can be trusted.
    pub(super) fn place(&self, path: &Path) -> Place {
        self.spot(&plain(path))
    }

    fn spot(&self, path: &[u8]) -> Place {
        let foreign = self.root == Way::Foreign || self.covered.hold(path);
        let way = if foreign { Way::Foreign } else { Way::Ours };
        Place { path: below(b"new", path), way }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.lines.push(Line::Do(step));
    }

    pub(super) fn bind(
        &mut self,
        source: &CStr,
        expect: Option<Inode>,
        target: Place,
        attributes: Attributes,
    ) {
        self.push(Step::Bind { source: source.to_owned(), expect, target, attributes });
    }

    /// Makes `path` and the directories that hold it, unless they come with something mounted.
    pub(super) fn dir_all(&mut self, path: &Path) {
        self.dirs(&plain(path));
    }

    fn dirs(&mut self, path: &[u8]) {
        let Some(parent) = parent(path) else { return };
        if self.made.contains(path) || self.covered.hold(path) {
            return;
        }
        self.dirs(parent);
        self.made.insert(path);
        self.make(path, Made::Dir { path: path.to_vec() });
    }

    fn parents(&mut self, path: &[u8]) {
        if let Some(parent) = parent(path) {
            self.dirs(parent);
        }
    }

    pub(super) fn file(&mut self, path: &str, content: &str) {
        let path = plain(Path::new(path));
        self.parents(&path);
        let content = content.as_bytes().into();
        self.make(&path, Made::File { path: path.to_vec(), content });
    }

    /// A file in the place of whatever is there.
    pub(super) fn rewrite(&mut self, path: &str, content: &str) {
        let path = plain(Path::new(path));
        self.parents(&path);
        self.push(Step::Rewrite { path: self.spot(&path), content: content.as_bytes().into() });
    }

    pub(super) fn link(&mut self, path: &Path, to: &OsStr) {
        let path = plain(path);
        self.parents(&path);
        let to = CString::new(to.as_encoded_bytes()).unwrap_or_default();
        self.make(&path, Made::Link { path: path.to_vec(), to });
    }

    /// Something to mount on, of the right kind.
    pub(super) fn stand(&mut self, path: &Path, kind: FileType) {
        let path = plain(path);
        if kind == FileType::Directory {
            return self.dirs(&path);
        }
        self.parents(&path);
        if !self.covered.hold(&path) {
            self.make(&path, Made::File { path: path.to_vec(), content: Box::default() });
        }
    }

    /// Shows a part of the host's tree at its own path.
    pub(super) fn show(&mut self, path: &Path, looked: Looked, attributes: Attributes) {
        self.stand(path, looked.kind);
        self.bind(&outside(path), Some(looked.inode), self.place(path), attributes);
        self.cover(path);
    }

    /// The same for what already has its attributes at `source`.
    pub(super) fn show_again(&mut self, source: &CStr, path: &Path, kind: FileType) {
        self.stand(path, kind);
        self.again(source, self.place(path));
        self.cover(path);
    }

    /// Shows a directory of the base at `path`; more can be made in it.
    pub(super) fn private(&mut self, source: &CStr, path: &Path) {
        self.dir_all(path);
        self.again(source, self.place(path));
    }

    /// Shows `source` at `target` with the attributes that it has.
    pub(super) fn again(&mut self, source: &CStr, target: Place) {
        self.push(Step::Again { source: source.to_owned(), target });
    }

    pub(super) fn cover(&mut self, path: &Path) {
        self.covered.insert(&plain(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_held_by_itself_and_by_what_is_above_it_however_it_is_spelt() {
        let mut paths = Paths::default();
        let spelt = |path: &'static str| plain(Path::new(path));
        for path in ["/usr", "/usr/", "/a/b", "/odd//way/./of/", "/.hidden"] {
            paths.insert(&spelt(path));
        }
        for path in ["/usr", "/usr/", "/usr//lib", "/a/b/c/d", "/odd/way/of/it", "/.hidden/x"] {
            assert!(paths.hold(&spelt(path)), "{path}");
        }
        for path in ["/", "/us", "/usrlocal", "/a", "/a/bc", "/odd/way", "/hidden"] {
            assert!(!paths.hold(&spelt(path)), "{path}");
        }
        assert!(paths.contains(&spelt("/a//b")) && !paths.contains(&spelt("/a/b/c")));
        paths.insert(b"/");
        assert!(paths.hold(b"/anything"));
    }

    #[test]
    fn everything_but_the_root_is_held_by_a_directory() {
        let held = ["/", "/usr", "/usr/lib", "/a/b/c"].map(|it| parent(it.as_bytes()));
        let dirs = [None, Some("/"), Some("/usr"), Some("/a/b")];
        assert_eq!(held, dirs.map(|it| it.map(str::as_bytes)));
    }
}
