//! The image of a project, for a sandbox that a daemon builds: made when it is first needed.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use bulkhead_backends::container::Product;
use bulkhead_image::build::{BuildNetwork, Cache, PullBase};
use bulkhead_spec::{ImageRef, ImageSource, Network, Pull, Reference, Root, escape};

use super::{
    build::{self, How},
    daemon,
    recipe::{self, Origin, Plan, Recipe},
};
use crate::{codes::Code, config::shown, failure::Failure, printer::Printer, wish::Wish};

/// What a user can do who does not want the project's image.
const OTHERWISE: &str = "or run in another image: --image bulkhead/agent";

/// The image that a project asks for, and what else it says about programs in it.
#[derive(Clone, Debug)]
pub(crate) struct ProjectImage {
    /// The image.
    pub(crate) image: ImageRef,
    /// Variables for every program.
    pub(crate) env: BTreeMap<String, String>,
    /// Where programs start, seen from the workspace.
    pub(crate) start: Option<PathBuf>,
}

/// The image that a daemon starts from where nobody named one: it has none of the host's programs,
/// so what the host would show of its toolchains means nothing there.
const AGENT: &str = "bulkhead/agent";

/// The image for `wish` at the daemon of `product`, where the caller named none: that of the project,
/// built if nothing like it was built before, or else the agents' own.
pub(crate) async fn first_use(
    wish: &Wish,
    product: Product,
    printer: &Printer,
) -> Result<Option<ProjectImage>, Failure> {
    let Some((recipe, dir)) = wanted(wish)? else { return agents(wish) };
    recipe.origin.check_trust(&wish.paths, OTHERWISE)?;
    let image = match &recipe.origin {
        Origin::Image { name, .. } => {
            let source = ImageSource::Registry(reference(name)?);
            ImageRef { source, pull: wish.layer.pull.unwrap_or_default() }
        }
        Origin::Build(plan) => {
            let tag = built(wish, product, (plan, dir), printer).await?;
            ImageRef { source: ImageSource::Daemon(reference(&tag)?), pull: Pull::Never }
        }
    };
    let start = recipe.folder.as_deref().and_then(|it| below(it, dir));
    if let (Some(folder), None) = (&recipe.folder, &start) {
        let folder = escape(folder);
        printer.detail(&format!("the workspace is at its own place, not at `{folder}`"));
    }
    Ok(Some(ProjectImage { image, env: recipe.env, start }))
}

/// The agents' image, unless another root was named.
fn agents(wish: &Wish) -> Result<Option<ProjectImage>, Failure> {
    if wish.spec.root != Root::Host {
        return Ok(None);
    }
    let image = ImageRef { source: ImageSource::Daemon(reference(AGENT)?), pull: Pull::Never };
    Ok(Some(ProjectImage { image, env: BTreeMap::new(), start: None }))
}

/// What a run would do first, in words.
pub(crate) fn foretold(wish: &Wish) -> Result<Option<String>, Failure> {
    Ok(wanted(wish)?.map(|(recipe, _)| match recipe.origin {
        Origin::Build(plan) => {
            let file = shown(&plan.dockerfile.path);
            format!("a run takes the image of `{file}`, and builds it if need be")
        }
        Origin::Image { name, .. } => {
            format!("a run takes the image `{}`, which the project names", escape(&name))
        }
    }))
}

/// The recipe of the project, if the caller named no root.
fn wanted(wish: &Wish) -> Result<Option<(Recipe, &Path)>, Failure> {
    let (Root::Host, Some(workspace)) = (&wish.spec.root, &wish.spec.workspace) else {
        return Ok(None);
    };
    // `--image none` is a word against an image too.
    if wish.layer.image.is_some() {
        return Ok(None);
    }
    let dir = workspace.dir.as_path();
    let recipe = recipe::find(dir).map_err(|failure| failure.hint(OTHERWISE))?;
    Ok(recipe.map(|it| (it, dir)))
}

async fn built(
    wish: &Wish,
    product: Product,
    (plan, dir): (&Plan, &Path),
    printer: &Printer,
) -> Result<String, Failure> {
    recipe::review(&plan.dockerfile)?;
    plan.notes.iter().for_each(|it| printer.detail(it));
    let how = How {
        target: None,
        // Whoever opens the network to the program opens it to what the program needs.
        network: match wish.spec.network {
            Network::Open => BuildNetwork::Daemon,
            Network::None | Network::Proxy | Network::Observe => BuildNetwork::None,
        },
        cache: Cache::Used,
        pull: match wish.layer.pull.unwrap_or_default() {
            Pull::Never => PullBase::Never,
            Pull::Missing | Pull::Always => PullBase::Missing,
        },
    };
    let request = build::request(how, plan, dir)?;
    let daemon = daemon::connect_to(product, &wish.environment).await?;
    let built = build::perform(&daemon, &request, printer).await.map_err(|failure| {
        failure.hint("build it first, as you need it: bulkhead image build --network")
    })?;
    let tag = escape(&built.tag);
    if built.reused {
        printer.detail(&format!("{tag} was built before"));
    } else {
        printer.note(&format!("built {tag} for this project"));
    }
    Ok(built.tag)
}

fn reference(name: &str) -> Result<Reference, Failure> {
    name.parse().map_err(|error| {
        let what = format!("the project names the image `{}`", escape(name));
        Failure::new(Code::ImageBuild, what).because(error)
    })
}

/// What of `folder` is below the project in `dir`: the workspace keeps the place that it has on the
/// host, so only what comes after the project's own name says something.
fn below(folder: &str, dir: &Path) -> Option<PathBuf> {
    let own = dir.file_name()?;
    let mut words = folder.split('/').filter(|it| !it.is_empty() && *it != ".");
    words.by_ref().find(|it| OsStr::new(it) == own)?;
    Some(words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_says_where_below_the_project_programs_start() {
        let start = |folder| below(folder, Path::new("/home/me/shop"));
        assert_eq!(start("/workspaces/shop/api/v1"), Some("api/v1".into()));
        assert_eq!(start("/workspaces/shop"), Some("".into()));
        assert_eq!(start("/workspace"), None);
        // It cannot climb; the parser of the file refuses that already.
        assert_eq!(start("/shop/./api/"), Some("api".into()));
    }
}
