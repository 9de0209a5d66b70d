//! The project's own recipe for an image: a Dockerfile, or a devcontainer that names one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bulkhead_image::{
    devcontainer::{self, Base, Devcontainer, PLACES},
    review,
};

use crate::{
    codes::Code,
    config::{ConfigError, Digest, Links, Paths, Source, TrustStore, shown},
    failure::Failure,
};

/// Where the Dockerfile of a project is.
pub(super) const DIR: &str = ".sandbox";
/// Its name there.
pub(super) const FILE: &str = "Dockerfile";

/// What a project says about its image, and about the programs in it.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// Where the image comes from.
    pub(super) origin: Origin,
    /// Variables for every program.
    pub(super) env: BTreeMap<String, String>,
    /// Where its writer expects the workspace.
    pub(super) folder: Option<String>,
}

/// Where the image of a project comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// It is built.
    Build(Box<Plan>),
    /// It is one that exists.
    Image {
        /// Its reference.
        name: String,
        /// The file that says so.
        said_in: Source,
    },
}

/// How an image is built.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The Dockerfile.
    pub(super) dockerfile: Source,
    /// What else had a say, and needs the same trust.
    pub(super) also: Option<Source>,
    /// The directory that it copies from.
    pub(super) context: PathBuf,
    /// Values for its arguments.
    pub(super) args: BTreeMap<String, String>,
    /// Which stage.
    pub(super) target: Option<String>,
    /// What was not taken.
    pub(super) notes: Vec<String>,
}

/// Whether `path` has the name of a recipe, which trust is about in another way than about a
/// configuration.
pub(crate) fn is_recipe(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    name.starts_with("Dockerfile")
        || name.starts_with("Containerfile")
        || extension == "Dockerfile"
        || extension == "dockerfile"
        || name.ends_with("devcontainer.json")
}

/// Refuses a recipe that is never built or honoured, trusted or not.
pub(crate) fn review(source: &Source) -> Result<(), Failure> {
    let name = shown(&source.path);
    if name.ends_with("devcontainer.json") {
        devcontainer::parse(&source.text).map_err(|error| {
            Failure::new(Code::ImageBuild, format!("`{name}` is not honoured")).because(error)
        })?;
        return Ok(());
    }
    review::review(&source.text).map_err(|error| {
        Failure::new(Code::ImageBuild, format!("`{name}` is not built")).because(error)
    })?;
    Ok(())
}

/// The recipe in `dir`, if it has one.
pub(super) fn find(dir: &Path) -> Result<Option<Recipe>, Failure> {
    let own = dir.join(DIR);
    // A link could lead to files that are nobody's recipe.
    if own.symlink_metadata().is_ok_and(|it| it.is_dir())
        && let Some(source) = Source::read(&own.join(FILE), Links::Refused)?
    {
        return Ok(Some(plain(source, dir)));
    }
    for place in PLACES {
        let path = dir.join(place);
        let parent = path.parent().unwrap_or(dir);
        if !parent.symlink_metadata().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        if let Some(source) = Source::read(&path, Links::Refused)? {
            return of_devcontainer(source, dir);
        }
    }
    Ok(None)
}

/// The Dockerfile that the user names, for the project in `dir`.
pub(super) fn named(file: &Path, dir: &Path) -> Result<Recipe, Failure> {
    let parent = file.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    let unreachable = |error: std::io::Error| {
        Failure::new(Code::ImageBuild, format!("cannot find `{}`", shown(file))).because(error)
    };
    let parent = parent.canonicalize().map_err(unreachable)?;
    let path = file.file_name().map_or_else(|| parent.clone(), |name| parent.join(name));
    let source = Source::read(&path, Links::Refused)?;
    let source = source.ok_or_else(|| ConfigError::absent(&path))?;
    Ok(plain(source, dir))
}

fn plain(dockerfile: Source, dir: &Path) -> Recipe {
    let plan = Plan {
        dockerfile,
        also: None,
        context: dir.to_owned(),
        args: BTreeMap::new(),
        target: None,
        notes: Vec::new(),
    };
    Recipe { origin: Origin::Build(Box::new(plan)), env: BTreeMap::new(), folder: None }
}

fn of_devcontainer(source: Source, dir: &Path) -> Result<Option<Recipe>, Failure> {
    review(&source)?;
    let name = shown(&source.path);
    let parsed = devcontainer::parse(&source.text)
        .map_err(|error| Failure::new(Code::ImageBuild, format!("`{name}`: {error}")))?;
    let Devcontainer { base, notes, env, workspace: folder, .. } = parsed;
    let origin = match base {
        Base::Unsaid => return Ok(None),
        Base::Image(name) => Origin::Image { name, said_in: source },
        Base::Build { dockerfile, context, args, target } => {
            let parent = source.path.parent().unwrap_or(dir).to_owned();
            let inside = |path: &str| -> Result<PathBuf, Failure> {
                let found = parent.join(path).canonicalize();
                let found = found.ok().filter(|it| it.starts_with(dir));
                found.ok_or_else(|| {
                    let path = bulkhead_spec::escape(path);
                    let what = format!("`{name}` names `{path}`, which is not in the project");
                    Failure::new(Code::ImageBuild, what)
                })
            };
            let path = inside(&dockerfile)?;
            let dockerfile = Source::read(&path, Links::Refused)?;
            let dockerfile = dockerfile.ok_or_else(|| ConfigError::absent(&path))?;
            let context = inside(&context)?;
            let also = Some(source);
            Origin::Build(Box::new(Plan { dockerfile, also, context, args, target, notes }))
        }
    };
    Ok(Some(Recipe { origin, env, folder }))
}

impl Origin {
    /// Refuses a recipe that nobody has trusted exactly as it is. The last hint is `otherwise`.
    pub(super) fn check_trust(&self, paths: &Paths, otherwise: &str) -> Result<(), Failure> {
        let store = paths.trust().ok_or(ConfigError::Homeless)?;
        let store = TrustStore::read(&store)?;
        let (first, second, doing) = match self {
            Self::Build(plan) => {
                (&plan.dockerfile, plan.also.as_ref(), "would run on your daemon")
            }
            Self::Image { said_in, .. } => (said_in, None, "names what programs run in"),
        };
        for source in std::iter::once(first).chain(second) {
            if !store.trusts(&Digest::of(source)) {
                let name = shown(&source.path);
                let what = format!("`{name}` comes with the project and {doing}");
                return Err(Failure::new(Code::Untrusted, what)
                    .because("nobody has trusted it exactly as it is now")
                    .hint(format!("read it; if you agree, type: bulkhead trust {name}"))
                    .hint(otherwise));
            }
        }
        Ok(())
    }
}
