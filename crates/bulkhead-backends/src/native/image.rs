//! Images as roots: which layers, and what of the sandbox's own goes over them.

use std::path::PathBuf;

use bulkhead_image::{ImageError, InUse, Seen};
use bulkhead_policy::Plan;
use bulkhead_spec::{ImageRef, Root};

use super::{Native, root};
use crate::{BackendError, identity::INSIDE};

/// The longest list of users that is worth reading.
const LONGEST: u64 = 1 << 20;

/// What is laid out over the layers of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    /// Their names in the directory that holds them, the topmost first.
    pub(super) names: Vec<String>,
    /// Files that are the sandbox's own, whatever the image has there.
    pub(super) files: Vec<(&'static str, String)>,
    /// The directory that the image's program starts in, where the image does not have it.
    pub(super) dir: Option<PathBuf>,
    /// Whether `/var/tmp` leads elsewhere in the image, mostly to `/tmp`.
    pub(super) linked_var_tmp: bool,
}

impl Native {
    /// Keeps the layers of the plan's image where they are, if it has one.
    pub(super) fn hold(&self, plan: &Plan) -> Result<Option<InUse>, BackendError> {
        let Root::Image(image) = plan.root() else { return Ok(None) };
        let failed = |error| refused(image, error);
        let digest = plan.image().ok_or_else(|| failed(ImageError::Absent))?.digest;
        let images = self.images.as_ref().ok_or_else(|| failed(ImageError::Absent))?;
        images.hold(digest).map(Some).map_err(failed)
    }
}

/// What became of the wish for `image`.
pub(super) fn refused(image: &ImageRef, error: ImageError) -> BackendError {
    let hint = error.hint();
    BackendError::Image { image: image.source.to_string(), source: Box::new(error), hint }
}

/// Looks at what the image has where the sandbox puts something.
pub(super) fn layers(plan: &Plan, image: &InUse) -> Layers {
    let mut files = vec![
        ("/etc/hosts", root::HOSTS.to_owned()),
        ("/etc/hostname", "bulkhead\n".to_owned()),
    ];
    let home = plan.home();
    let shell = if image.look("bin/bash") == Seen::File { "/bin/bash" } else { "/bin/sh" };
    let user = format!("sandbox:x:{INSIDE}:{INSIDE}:sandbox:{home}:{shell}\n");
    files
        .extend(listed(image, "etc/passwd", root::PASSWD, &user).map(|it| ("/etc/passwd", it)));
    let group = format!("sandbox:x:{INSIDE}:\n");
    files.extend(listed(image, "etc/group", root::GROUP, &group).map(|it| ("/etc/group", it)));
    if !matches!(image.look("etc"), Seen::Directory | Seen::Nothing) {
        files.clear();
    }
    let dir = plan.image().and_then(|it| it.dir.as_ref()).map(|it| it.as_path().to_owned());
    let absent = |dir: &PathBuf| {
        dir.to_str().is_some_and(|it| image.look(it.trim_start_matches('/')) == Seen::Nothing)
    };
    Layers {
        names: image.layers.clone(),
        files,
        dir: dir.filter(absent),
        linked_var_tmp: image.look("var/tmp") == Seen::Other,
    }
}

/// The image's list of users or groups with the sandbox's own, in the place of whoever has its
/// number. `None` where the image has something that cannot be read.
fn listed(image: &InUse, path: &str, missing: &str, own: &str) -> Option<String> {
    let known = match image.look(path) {
        Seen::Nothing => missing.to_owned(),
        Seen::File => image.text(path, LONGEST)?,
        Seen::Directory | Seen::Other => return None,
    };
    let number = INSIDE.to_string();
    let other = |line: &&str| line.split(':').nth(2) != Some(&number) && !line.is_empty();
    let kept = known.lines().filter(other).flat_map(|line| [line, "\n"]);
    Some(kept.chain([own]).collect())
}
