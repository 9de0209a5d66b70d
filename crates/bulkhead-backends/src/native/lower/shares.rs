//! What the plan shares, and what is protected in it.

use std::{ffi::CString, path::Path};

use bulkhead_linux::{
    mounts::Attributes,
    steps::{Place, Step},
};
use bulkhead_policy::Plan;
use bulkhead_spec::Access;

use super::{
    Line,
    paths::{Steps, base, inside},
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
    empty(steps, plan, |path| !within(path));
    for share in &survey.shares {
        steps.stand(&share.to, share.looked.kind);
        let target = steps.place(&share.to);
        match share.access {
            Access::ReadOnly => show(steps, share, Attributes::ReadOnly, target),
            Access::ReadWrite => show(steps, share, Attributes::ReadWrite, target),
            Access::Private => private(steps, share, None, target),
        }
        steps.cover(&share.to);
    }
    empty(steps, plan, within);
    for Protection { path, how } in &survey.protections {
        protect(steps, path, *how);
    }
}

/// The empty private directories of the plan that `chosen` means.
fn empty(steps: &mut Steps, plan: &Plan, chosen: impl Fn(&Path) -> bool) {
    for (at, path) in plan.tmpfs().iter().enumerate() {
        if chosen(path.as_path()) {
            let source = CString::new(format!("tmpfs{at}")).unwrap_or_default();
            steps.push(Step::Dir { path: base(&source), mode: 0o1777 });
            steps.private(&source, path.as_path());
        }
    }
}

fn show(steps: &mut Steps, share: &Share, attributes: Attributes, target: Place) {
    steps.lines.push(Line::Show { share: share.clone(), attributes, target });
}

/// A copy on write: the share lies below, changes go to the base.
///
/// With `layers`, it is they that lie below: directories of the share, the topmost first.
pub(super) fn private(
    steps: &mut Steps,
    share: &Share,
    layers: Option<&[String]>,
    target: Place,
) {
    let at = steps.lines.len();
    let dir = |kind: &str| CString::new(format!("{kind}/{at}")).unwrap_or_default();
    let (lower, upper) = (dir("lower"), dir("upper"));
    let work = CString::new(format!("upper/{at}-work")).unwrap_or_default();
    for path in [&lower, &upper, &work] {
        steps.push(Step::Dir { path: base(path), mode: 0o755 });
    }
    show(steps, share, Attributes::ReadOnly, base(&lower));
    let below = |layer: &String| [lower.to_bytes(), b"/", layer.as_bytes()].concat();
    let lower = match layers {
        None => vec![lower],
        Some(all) => all.iter().map(|it| CString::new(below(it)).unwrap_or_default()).collect(),
    };
    steps.push(Step::Overlay { lower, upper, work, target });
}

fn protect(steps: &mut Steps, path: &Path, how: How) {
    let (itself, target) = (inside(path), steps.place(path));
    match how {
        How::Pin => steps.bind(&itself, None, target, Attributes::ReadWrite),
        How::Reopen => steps.bind(&itself, None, target, Attributes::Reopened),
        How::ReadOnly | How::Absent | How::AbsentGitFile => {
            steps.bind(&itself, None, target, Attributes::ReadOnly);
        }
        How::AbsentGit => steps.bind(c"empty", None, target, Attributes::Inert),
        How::Hidden => steps.bind(c"blank/file", None, target, Attributes::Inert),
    }
}
