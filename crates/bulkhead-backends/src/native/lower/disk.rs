//! The private disk: what it begins with, and where its changes go.
//!
//! ```text
//! base/
//! ├── home, tmp, vartmp, tmpfs0, …   parts of a disk that ends with the sandbox
//! ├── upper0, upper1, …              changes to the root, to private shares
//! ├── disk/                          the same parts, where they are kept: `disk/home`, `disk/upper0`
//! └── layers/0, layers/1, …          what the disk begins with, the topmost first
//! ```

use std::{ffi::CString, path::Path};

use bulkhead_guest::layer::{Part, PartKind};
use bulkhead_linux::{
    mounts::Attributes,
    steps::{Place, Step, Way},
};
use bulkhead_policy::Plan;
use bulkhead_spec::Access;

use super::{
    Line,
    paths::{Steps, base},
};
use crate::{native::survey::Survey, workspace::disk::FoundDisk};

/// Where the changes to one overlay go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changes<'a> {
    /// Its number: 0 is the root, the others are shares.
    pub(super) at: usize,
    pub(super) disk: &'a FoundDisk,
}

impl Changes<'_> {
    /// Directories for the changes and for the kernel's scratch.
    pub(super) fn dirs(self) -> [CString; 2] {
        let at = self.at;
        match self.disk.kept {
            Some(_) => [
                c_string(&format!("disk/upper{at}")),
                c_string(&format!("disk/upper{at}-work")),
            ],
            None => [c_string(&format!("upper{at}")), c_string(&format!("upper{at}-work"))],
        }
    }

    /// What of the layers lies on top of what is shared.
    pub(super) fn layers(self) -> impl Iterator<Item = CString> {
        let at = self.at;
        (0..self.disk.layers.len()).map(move |it| c_string(&format!("layers/{it}/upper{at}")))
    }
}

/// Shows what the disk begins with, and the place where its changes are kept.
pub(super) fn begin(steps: &mut Steps, survey: &Survey) {
    let FoundDisk { layers, kept, .. } = &survey.disk;
    if !layers.is_empty() {
        steps.push(Step::Dir { path: base(c"layers"), mode: 0o755 });
    }
    let layers = layers.iter().enumerate();
    let layers =
        layers.map(|(at, it)| (it, Attributes::ReadOnly, c_string(&format!("layers/{at}"))));
    let kept = kept.iter().map(|it| (it, Attributes::ReadWrite, c"disk".to_owned()));
    for (share, attributes, path) in layers.chain(kept) {
        steps.push(Step::Dir { path: base(&path), mode: 0o755 });
        steps.lines.push(Line::Show { share: share.clone(), attributes, target: base(&path) });
    }
}

/// `/tmp` and `/var/tmp`, which lie on the base until it is known that they should not.
pub(super) fn temporary(steps: &mut Steps, survey: &Survey) {
    if survey.disk.is_plain() {
        return;
    }
    let elsewhere = |name| survey.disk.kept.is_some() || survey.disk.is_begun(name);
    if elsewhere("tmp") {
        show(steps, "tmp", "/tmp".as_ref(), survey);
    }
    let linked = survey.layers.as_ref().is_some_and(|it| it.linked_var_tmp);
    if elsewhere("vartmp") && !linked {
        show(steps, "vartmp", "/var/tmp".as_ref(), survey);
    }
}

/// Shows the part `name` of the disk at `path`.
pub(super) fn show(steps: &mut Steps, name: &str, path: &Path, survey: &Survey) {
    let FoundDisk { layers, kept, .. } = &survey.disk;
    let source = place(name, survey);
    if kept.is_some() {
        steps.push(Step::Dir { path: source.clone(), mode: mode(name) });
    }
    if !survey.disk.is_begun(name) {
        return steps.private(&source.path, path);
    }
    let mut work = source.clone();
    work.path = c_string(&format!("{}-work", source.path.to_string_lossy()));
    steps.push(Step::Dir { path: work.clone(), mode: 0o700 });
    steps.dir_all(path);
    let target = steps.place(path);
    let lower = (0..layers.len()).map(|at| c_string(&format!("layers/{at}/{name}"))).collect();
    steps.push(Step::Overlay { lower, upper: source.path, work: work.path, target });
}

/// `file` in the part `name`.
pub(super) fn within(name: &str, file: &str, survey: &Survey) -> Place {
    let Place { path, way } = place(name, survey);
    Place { path: c_string(&format!("{}/{file}", path.to_string_lossy())), way }
}

fn place(name: &str, survey: &Survey) -> Place {
    match survey.disk.kept {
        Some(_) => Place { path: c_string(&format!("disk/{name}")), way: Way::Foreign },
        None => base(&c_string(name)),
    }
}

fn mode(name: &str) -> u32 {
    if name == "home" { 0o700 } else { 0o1777 }
}

/// What a copy of the disk of `plan` consists of, below the base or below the place where it is
/// kept.
pub(crate) fn parts(plan: &Plan, survey: &Survey) -> Vec<Part> {
    let linked = survey.layers.as_ref().is_some_and(|it| it.linked_var_tmp);
    let fixed = ["home", "tmp", "vartmp"].into_iter().filter(|it| *it != "vartmp" || !linked);
    let empty = (0..plan.tmpfs().len()).map(|at| format!("tmpfs{at}"));
    let dirs = fixed.map(str::to_owned).chain(empty);
    let dirs = dirs.map(|name| {
        let begun = survey.disk.is_begun(&name);
        let kind = if begun { PartKind::Changes } else { PartKind::Plain };
        Part { from: name.clone(), to: name, kind }
    });
    let shares = survey.shares.iter().enumerate();
    let private = shares.filter(|(_, it)| it.access == Access::Private).map(|(at, _)| at + 1);
    let overlays = survey.root.iter().map(|_| 0).chain(private);
    let overlays = overlays.map(|at| Part {
        from: format!("upper{at}"),
        to: format!("upper{at}"),
        kind: PartKind::Changes,
    });
    dirs.chain(overlays).collect()
}

fn c_string(text: &str) -> CString {
    // Names of ours, without a NUL.
    CString::new(text).unwrap_or_default()
}
