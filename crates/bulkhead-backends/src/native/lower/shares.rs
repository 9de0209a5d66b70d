//! What the plan shares, and what is protected in it.

use std::{ffi::CString, path::Path};

use bulkhead_linux::{
    mounts::Attributes,
    steps::{Place, Step, Way},
};
use bulkhead_policy::Plan;
use bulkhead_spec::Access;

use super::{
    Line,
    disk::{self, Changes},
    paths::{Steps, base},
};
use crate::{
    native::survey::Survey,
    workspace::{
        protect::{How, Protection},
        share::Share,
    },
};

pub(super) fn lower(steps: &mut Steps, plan: &Plan, survey: &Survey) {
    // Those within a share come after it, or it would lie on top of them.
    let within = |path: &Path| survey.shares.iter().any(|it| path.starts_with(&it.to));
    empty(steps, plan, survey, |path| !within(path));
    for (at, share) in survey.shares.iter().enumerate() {
        steps.stand(&share.to, share.looked.kind);
        let target = steps.place(&share.to);
        match share.access {
            Access::ReadOnly => show(steps, share, Attributes::ReadOnly, target),
            Access::ReadWrite => show(steps, share, Attributes::ReadWrite, target),
            Access::Private => {
                let changes = Changes { at: at + 1, disk: &survey.disk };
                private(steps, share, None, (changes, target));
            }
        }
        steps.cover(&share.to);
    }
    empty(steps, plan, survey, within);
    for Protection { path, how } in &survey.protections {
        protect(steps, path, *how);
    }
}

/// The empty private directories of the plan that `chosen` means.
fn empty(steps: &mut Steps, plan: &Plan, survey: &Survey, chosen: impl Fn(&Path) -> bool) {
    for (at, path) in plan.tmpfs().iter().enumerate() {
        if chosen(path.as_path()) {
            let name = format!("tmpfs{at}");
            let source = CString::new(name.as_str()).unwrap_or_default();
            steps.push(Step::Dir { path: base(&source), mode: 0o1777 });
            disk::show(steps, &name, path.as_path(), survey);
        }
    }
}

fn show(steps: &mut Steps, share: &Share, attributes: Attributes, target: Place) {
    steps.lines.push(Line::Show { share: share.clone(), attributes, target });
}

/// A copy on write: the share lies below, changes go to the disk.
///
/// With `layers`, it is they that lie below: directories of the share, the topmost first.
pub(super) fn private(
    steps: &mut Steps,
    share: &Share,
    layers: Option<&[String]>,
    (changes, target): (Changes<'_>, Place),
) {
    let lower = CString::new(format!("lower{}", changes.at)).unwrap_or_default();
    let [upper, work] = changes.dirs();
    steps.push(Step::Dir { path: base(&lower), mode: 0o755 });
    for path in [&upper, &work] {
        let way = if changes.disk.kept.is_some() { Way::Foreign } else { Way::Ours };
        steps.push(Step::Dir { path: Place { path: path.clone(), way }, mode: 0o755 });
    }
    show(steps, share, Attributes::ReadOnly, base(&lower));
    let below = |layer: &String| [lower.to_bytes(), b"/", layer.as_bytes()].concat();
    let below = |layer| CString::new(below(layer)).unwrap_or_default();
    let mut all: Vec<CString> = changes.layers().collect();
    match layers {
        None => all.push(lower),
        Some(layers) => all.extend(layers.iter().map(below)),
    }
    steps.push(Step::Overlay { lower: all, upper, work, target });
}

fn protect(steps: &mut Steps, path: &Path, how: How) {
    let target = steps.place(path);
    let attributes = match how {
        How::Pin => Attributes::ReadWrite,
        How::Reopen => Attributes::Reopened,
        How::ReadOnly | How::Absent | How::AbsentGitFile => Attributes::ReadOnly,
        How::AbsentGit => return steps.bind(c"empty", None, target, Attributes::Inert),
        How::Hidden => return steps.again(c"blank/file", target),
    };
    steps.push(Step::Hold { target, attributes });
}
