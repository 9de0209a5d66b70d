//! `/dev`, and what is hidden of `/proc`.

use std::{ffi::OsStr, path::Path};

use bulkhead_linux::{
    mounts::Attributes,
    steps::{Kind, Reach, Step},
};
use rustix::fs::FileType;

use super::paths::{Steps, base, inside, outside};
use crate::native::{
    root,
    survey::{Entry, House},
};

const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

pub(super) fn lower(steps: &mut Steps, house: &House) {
    // A directory of the base, so that nothing of another root's `/dev` is used: an image that
    // ships `/dev/null` as a link once led masks astray (CVE-2025-31133).
    if steps.is_framed() {
        super::framed(steps, "dev", Attributes::Device);
    } else {
        steps.push(Step::Dir { path: base(c"dev"), mode: 0o755 });
        steps.private(c"dev", "/dev".as_ref());
    }
    for entry in &house.devices {
        if let Entry::Is { path, looked, .. } = entry
            && looked.kind == FileType::CharacterDevice
        {
            steps.show_again(&outside(path), path, looked.kind);
        }
    }
    restrict(steps, Attributes::Device, Reach::All);
    for (path, to) in LINKS {
        steps.link(Path::new(path), OsStr::new(to));
    }
    steps.dir_all("/dev/pts".as_ref());
    let target = steps.place("/dev/pts".as_ref());
    steps.push(Step::Mount { kind: Kind::Pts, target });
    steps.private(c"shm", "/dev/shm".as_ref());
    restrict(steps, Attributes::ReadOnly, Reach::Alone);
}

fn restrict(steps: &mut Steps, attributes: Attributes, reach: Reach) {
    steps.push(Step::Restrict { target: inside("/dev".as_ref()), attributes, reach });
}

/// Hides what tells about the host, and makes read-only what changes it.
pub(super) fn mask_proc(steps: &mut Steps) {
    let hidden = root::HIDDEN_IN_PROC.iter().map(|it| (c"blank/file", it));
    let empty = root::EMPTY_IN_PROC.iter().map(|it| (c"blank/dir", it));
    for (source, path) in hidden.chain(empty) {
        // Of the kernel's making: there is no link on the way that we did not mean.
        let target = steps.place(path.as_ref());
        steps.push(Step::Cover { source: source.to_owned(), target });
    }
    for path in root::READ_ONLY_IN_PROC {
        let target = steps.place(path.as_ref());
        steps.push(Step::Hold { target, attributes: Attributes::Inert });
    }
}
