//! A list of steps that knows which directories it has made.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ffi::{CStr, CString, OsStr},
    path::{Path, PathBuf},
};

use bulkhead_linux::{
    mounts::{Attributes, Inode, Looked},
    steps::{Place, Step, Way},
};
use rustix::fs::FileType;

use super::Line;

#[derive(Debug)]
pub(super) struct Steps {
    pub(super) lines: Vec<Line>,
    /// Who made the root.
    root: Way,
    made: Paths,
    /// Where something of the host's is mounted: nothing is made below.
    covered: Paths,
}

/// Some paths, kept and compared as bytes: `Path` compares part by part, which for a list of this
/// length takes longer than the kernel takes for half of it.
#[derive(Debug, Default)]
struct Paths(BTreeSet<Vec<u8>>);

impl Paths {
    fn insert(&mut self, path: &Path) {
        self.0.insert(plain(path).into_owned());
    }

    fn contains(&self, path: &Path) -> bool {
        self.0.contains(&*plain(path))
    }

    /// Whether `path` or a directory above it is among them.
    fn hold(&self, path: &Path) -> bool {
        let path = plain(path);
        let slashes = path.iter().enumerate().skip(1).filter(|(_, it)| **it == b'/');
        let ends = slashes.map(|(at, _)| at).chain([path.len()]);
        let mut above = ends.filter_map(|end| path.get(..end));
        self.0.contains(&b"/"[..]) || above.any(|it| self.0.contains(it))
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

/// `path` as the steps know it: below `new`.
pub(super) fn inside(path: &Path) -> CString {
    below(b"new", path)
}

/// A directory of the base.
pub(super) fn base(path: &CStr) -> Place {
    Place { path: path.to_owned(), way: Way::Ours }
}

/// `path` of the host as the steps know it.
pub(super) fn outside(path: &Path) -> CString {
    below(b"", path)
}

/// `path` of the host where it lies in the base under its own name.
pub(super) fn staged(path: &Path) -> CString {
    below(b".", path)
}

fn below(base: &[u8], path: &Path) -> CString {
    // Paths of a plan have no NUL: `GuestPath` and `HostPath` refuse it.
    CString::new([base, path.as_os_str().as_encoded_bytes()].concat()).unwrap_or_default()
}

impl Steps {
    /// An empty list for a root of which `root` made the directories.
    pub(super) fn new(root: Way) -> Self {
        Self { lines: Vec::new(), root, made: Paths::default(), covered: Paths::default() }
    }

    /// Where `path` is, and how far the way to it can be trusted.
    pub(super) fn place(&self, path: &Path) -> Place {
        let foreign = self.root == Way::Foreign || self.is_covered(path);
        Place { path: inside(path), way: if foreign { Way::Foreign } else { Way::Ours } }
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
        if self.made.contains(path) || path.parent().is_none() || self.is_covered(path) {
            return;
        }
        self.parents(path);
        self.made.insert(path);
        self.push(Step::Dir { path: self.place(path), mode: 0o755 });
    }

    /// Whether `path` comes with something that is mounted at it or above it.
    fn is_covered(&self, path: &Path) -> bool {
        self.covered.hold(path)
    }

    pub(super) fn parents(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.dir_all(parent);
        }
    }

    pub(super) fn file(&mut self, path: &str, content: &str) {
        let path = Path::new(path);
        self.parents(path);
        self.push(Step::File { path: self.place(path), content: content.as_bytes().into() });
    }

    /// A file in the place of whatever is there.
    pub(super) fn rewrite(&mut self, path: &str, content: &str) {
        let path = Path::new(path);
        self.parents(path);
        self.push(Step::Rewrite { path: self.place(path), content: content.as_bytes().into() });
    }

    pub(super) fn link(&mut self, path: &Path, to: &OsStr) {
        self.parents(path);
        let to = CString::new(to.as_encoded_bytes()).unwrap_or_default();
        self.push(Step::Link { path: self.place(path), to });
    }

    /// Something to mount on, of the right kind.
    pub(super) fn stand(&mut self, path: &Path, kind: FileType) {
        if kind == FileType::Directory {
            self.dir_all(path);
        } else {
            self.parents(path);
            if !self.is_covered(path) {
                self.push(Step::File { path: self.place(path), content: Box::default() });
            }
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
        self.covered.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_held_by_itself_and_by_what_is_above_it_however_it_is_spelt() {
        let mut paths = Paths::default();
        for path in ["/usr", "/a/b", "/odd//way/./of/", "/.hidden"] {
            paths.insert(Path::new(path));
        }
        for path in ["/usr", "/usr/", "/usr//lib", "/a/b/c/d", "/odd/way/of/it", "/.hidden/x"] {
            assert!(paths.hold(Path::new(path)), "{path}");
        }
        for path in ["/", "/us", "/usrlocal", "/a", "/a/bc", "/odd/way", "/hidden"] {
            assert!(!paths.hold(Path::new(path)), "{path}");
        }
        assert!(paths.contains(Path::new("/a//b")) && !paths.contains(Path::new("/a/b/c")));
        paths.insert(Path::new("/"));
        assert!(paths.hold(Path::new("/anything")));
    }
}
