//! `bulkhead image build`: the project's image, if nothing like it was built before.

use std::path::{Path, PathBuf};

use bulkhead_image::build::{
    self, BuildError, BuildNetwork, Built, Cache, Progress, PullBase, Request,
};
use serde_json::json;

use super::{
    daemon::{self, Daemon},
    recipe::{self, Origin, Plan},
};
use crate::{
    args::image::BuildArgs,
    codes::Code,
    commands::current_dir,
    config::{Environment, Links, Paths, Source, Who, shown},
    engine,
    failure::Failure,
    printer::Printer,
};

/// Builds.
pub(super) fn run(
    args: &BuildArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let dir = args.dir.clone().map_or_else(current_dir, Ok)?;
    let dir = dir.canonicalize().map_err(|error| {
        Failure::new(Code::Workspace, format!("cannot find `{}`", shown(&dir))).because(error)
    })?;
    let recipe = match &args.file {
        Some(file) => Some(recipe::named(file, &dir)?),
        None => recipe::find(&dir)?,
    };
    let Some(recipe) = recipe else {
        let what =
            format!("`{}` has neither .sandbox/Dockerfile nor a devcontainer", shown(&dir));
        return Err(Failure::new(Code::ImageBuild, what)
            .hint("`bulkhead image init` writes one from the project's own files"));
    };
    let plan = match &recipe.origin {
        Origin::Build(plan) => plan,
        Origin::Image { name, .. } => {
            let image = bulkhead_spec::escape(name);
            printer.note(&format!("the project names the image `{image}`: nothing to build"));
            return Ok(0);
        }
    };
    plan.notes.iter().for_each(|it| printer.note(it));
    recipe::review(&plan.dockerfile)?;
    if !args.yes {
        let paths = Paths::find(environment, Who::current());
        recipe.origin.check_trust(&paths, "or build it this once with --yes")?;
    }
    let how = How {
        target: args.target.clone(),
        network: if args.sources.network { BuildNetwork::Daemon } else { BuildNetwork::None },
        cache: if args.no_cache { Cache::Ignored } else { Cache::Used },
        pull: if args.sources.no_pull { PullBase::Never } else { PullBase::Missing },
    };
    let request = request(how, plan, &dir)?;
    let built = engine::runtime()?.block_on(async {
        let daemon = daemon::connect(environment).await?;
        perform(&daemon, &request, printer).await
    })?;
    tell(&built, args, printer)?;
    Ok(0)
}

/// What the caller has to say about a build.
pub(super) struct How {
    /// Which stage.
    pub(super) target: Option<String>,
    /// What its steps reach.
    pub(super) network: BuildNetwork,
    /// Whether steps are done again.
    pub(super) cache: Cache,
    /// Whether a base is fetched.
    pub(super) pull: PullBase,
}

/// Builds as `request` says, and shows how far it is.
pub(super) async fn perform(
    daemon: &Daemon,
    request: &Request,
    printer: &Printer,
) -> Result<Built, Failure> {
    let mut bar = Bar { printer, drawn: false };
    let engine = daemon.engine()?;
    let daemon = build::Daemon { docker: &daemon.docker, engine: &engine };
    let built = build::build(daemon, request, &mut |it| bar.tell(&it)).await;
    bar.end();
    built.map_err(|error| failed(&error))
}

/// The request for an image of the project in `dir`.
pub(super) fn request(how: How, plan: &Plan, dir: &Path) -> Result<Request, Failure> {
    // As BuildKit does: a file beside the Dockerfile goes before the one of the context.
    let mut beside = plan.dockerfile.path.clone().into_os_string();
    beside.push(".dockerignore");
    let ignore = match Source::read(&PathBuf::from(beside), Links::Refused)? {
        Some(source) => Some(source),
        None => Source::read(&plan.context.join(".dockerignore"), Links::Refused)?,
    };
    let How { target, network, cache, pull } = how;
    Ok(Request {
        dockerfile: plan.dockerfile.text.clone(),
        dir: plan.context.clone(),
        ignore: ignore
            .map_or_else(|| bulkhead_image::dockerfile::IGNORE.to_owned(), |it| it.text),
        target: target.or_else(|| plan.target.clone()),
        args: plan.args.clone(),
        name: name(dir),
        network,
        cache,
        pull,
    })
}

/// `bulkhead/` and what of the directory's name can be in the name of an image.
pub(super) fn name(dir: &Path) -> String {
    let own = dir.file_name().map(|it| it.to_string_lossy().to_ascii_lowercase());
    let own = own.unwrap_or_default();
    let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let own: String = own.chars().map(plain).collect();
    let own = own.split('-').filter(|it| !it.is_empty()).collect::<Vec<_>>().join("-");
    if own.is_empty() { "bulkhead/project".to_owned() } else { format!("bulkhead/{own}") }
}

fn tell(built: &Built, args: &BuildArgs, printer: &Printer) -> Result<(), Failure> {
    let Built { tag, id, reused } = built;
    if args.told.json {
        let all = json!({ "schema_version": 1, "image": tag, "id": id, "reused": reused });
        return printer.payload(&format!("{all}\n"));
    }
    if *reused {
        printer.note("nothing changed since it was built");
    }
    printer.payload(&format!("{tag}\n"))
}

/// What a failed build says.
pub(super) fn failed(error: &BuildError) -> Failure {
    let failure = Failure::from_error(Code::ImageBuild, error);
    match error {
        BuildError::Step { output, .. } => {
            let failure = output.iter().fold(failure, Failure::because);
            failure.hint("steps reach no network unless you say --network")
        }
        BuildError::Base { .. } => {
            failure.hint("put it into the daemon (docker pull, docker load), or name another")
        }
        BuildError::Refused(_)
        | BuildError::NoStage(_)
        | BuildError::Context(_)
        | BuildError::Daemon { .. }
        | BuildError::Normal(_) => failure,
    }
}

/// How far a build is: one line that is drawn over on a terminal, plain lines elsewhere.
struct Bar<'a> {
    printer: &'a Printer,
    drawn: bool,
}

const WIDTH: u32 = 24;

impl Bar<'_> {
    fn tell(&mut self, progress: &Progress) {
        let line = match progress {
            Progress::Pulling(image) => format!("fetching the base image {image}"),
            Progress::Sent { files, bytes } => {
                format!("sending {files} files, {} KiB", bytes.div_ceil(1024))
            }
            Progress::Normalising => "making it reproducible".to_owned(),
            Progress::Step { at, of, what } => {
                if self.printer.can_draw() {
                    let full = (at.saturating_sub(1) * WIDTH).checked_div(*of).unwrap_or(0);
                    let full = full.min(WIDTH) as usize;
                    let rest = WIDTH as usize - full;
                    let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(rest));
                    let what: String = what.chars().take(60).collect();
                    self.drawn = true;
                    self.printer.draw(&format!("{bar} {at}/{of} {what}"));
                    return;
                }
                format!("step {at}/{of}: {what}")
            }
            Progress::Output(line) => {
                self.end();
                self.printer.detail(line);
                return;
            }
        };
        self.end();
        self.printer.note(&line);
    }

    fn end(&mut self) {
        if self.drawn {
            self.printer.draw("");
            self.drawn = false;
        }
    }
}
