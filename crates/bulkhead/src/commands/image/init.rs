//! `bulkhead image init`: a Dockerfile from the project's own files.

use std::{io, path::Path, time::Duration};

use bulkhead_image::{
    dockerfile::{self, CacheMounts, IGNORE, Pins},
    pins,
    project::{self, Project},
    tree::Tree,
};
use serde_json::{Value, json};

use super::{daemon, recipe, write};
use crate::{
    args::image::InitArgs,
    codes::Code,
    commands::current_dir,
    config::{ConfigError, Environment, Links, Paths, Source, TrustStore, Who, shown},
    engine,
    failure::Failure,
    printer::Printer,
};

/// A registry that does not answer must not keep anybody.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes, checks or prints.
pub(super) fn run(
    args: &InitArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let dir = args.dir.clone().map_or_else(current_dir, Ok)?;
    let unread = |error: io::Error| {
        let what = format!("could not look at the project in `{}`", shown(&dir));
        Failure::new(Code::Workspace, what).because(error)
    };
    let dir = dir.canonicalize().map_err(unread)?;
    let tree = Tree::read(&dir).map_err(unread)?;
    let projects = found(args, &tree, &dir)?;
    if args.instead.check {
        return check(&projects, &tree, &dir, printer);
    }
    let pins =
        if args.content.offline { Pins::new() } else { resolved(&projects, environment)? };
    let mounts = if args.content.cache_mounts { CacheMounts::Kept } else { CacheMounts::None };
    if !args.instead.print && !args.force {
        refuse_to_overwrite(&projects, &dir)?;
    }
    let mut report = Vec::new();
    for project in &projects {
        let text = dockerfile::render(project, &pins, mounts);
        for note in &project.notes {
            printer.note(&format!("{}: {note}", place(project)));
        }
        if args.instead.print {
            if !args.json {
                printer.payload(&text)?;
            }
        } else {
            put(project, &dir, &text, environment)?;
        }
        report.push(described(project, &pins, &text));
        if !args.instead.print && !args.json {
            tell(project, &pins, printer)?;
        }
    }
    if !args.instead.print {
        ignore(args, &projects, &dir, printer)?;
    }
    if args.json {
        let all = json!({ "schema_version": 1, "projects": report });
        printer.payload(&format!("{all}\n"))?;
    }
    Ok(0)
}

fn found(args: &InitArgs, tree: &Tree, dir: &Path) -> Result<Vec<Project>, Failure> {
    if let Some(language) = args.content.language {
        return Ok(vec![project::inspect(tree, "", language)]);
    }
    let projects = project::detect(tree);
    if projects.is_empty() {
        let what = format!("no project of a known language in `{}`", shown(dir));
        return Err(Failure::new(Code::Workspace, what)
            .because(
                "looked for go.mod, Cargo.toml, pom.xml, build.gradle, pyproject.toml, \
                 requirements.txt and package.json",
            )
            .hint("name it with --language, or write .sandbox/Dockerfile yourself"));
    }
    Ok(projects)
}

/// `services/api/.sandbox/Dockerfile`.
fn place(project: &Project) -> String {
    let file = format!("{}/{}", recipe::DIR, recipe::FILE);
    if project.dir.is_empty() { file } else { format!("{}/{file}", project.dir) }
}

fn refuse_to_overwrite(projects: &[Project], dir: &Path) -> Result<(), Failure> {
    let there = |it: &&Project| dir.join(place(it)).symlink_metadata().is_ok();
    match projects.iter().find(there) {
        None => Ok(()),
        Some(project) => {
            let name = bulkhead_spec::escape(&place(project));
            Err(Failure::new(Code::Argument, format!("`{name}` is there already"))
                .hint("--check says whether it still fits; --force writes over it"))
        }
    }
}

/// The digests of all bases, where the daemon or a registry tells them.
fn resolved(projects: &[Project], environment: &Environment) -> Result<Pins, Failure> {
    let mut images: Vec<String> = projects
        .iter()
        .flat_map(|it| {
            let (build, run) = dockerfile::bases(it);
            [build, run]
        })
        .collect();
    images.sort();
    images.dedup();
    engine::runtime()?.block_on(async {
        let daemon = daemon::connect(environment).await.ok();
        let mut pins = Pins::new();
        for image in images {
            let mut digest = None;
            if let Some(daemon) = &daemon {
                digest = pins::by_daemon(&daemon.docker, &image).await;
            }
            if digest.is_none() {
                let asked = pins::by_registry(&image);
                digest = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
            }
            pins.extend(digest.map(|it| (image, it)));
        }
        Ok(pins)
    })
}

/// Writes the file and trusts it: it says what was asked for just now.
fn put(
    project: &Project,
    dir: &Path,
    text: &str,
    environment: &Environment,
) -> Result<(), Failure> {
    let at = dir.join(&project.dir);
    let name = bulkhead_spec::escape(&place(project));
    let failed = |error: io::Error| {
        Failure::new(Code::Workspace, format!("could not write `{name}`")).because(error)
    };
    write::put(&at, Some(recipe::DIR), recipe::FILE, text).map_err(failed)?;
    let path = at.join(recipe::DIR).join(recipe::FILE);
    let store =
        Paths::find(environment, Who::current()).trust().ok_or(ConfigError::Homeless)?;
    TrustStore::read(&store)?.trust(&Source { path, text: text.to_owned() })?;
    Ok(())
}

/// One `.dockerignore` per project; one that is there stays.
fn ignore(
    args: &InitArgs,
    projects: &[Project],
    dir: &Path,
    printer: &Printer,
) -> Result<(), Failure> {
    for project in projects {
        let at = dir.join(&project.dir);
        let path = at.join(".dockerignore");
        if path.symlink_metadata().is_ok() && !args.force {
            let name = shown(&path);
            printer.note(&format!("`{name}` is there already and stays as it is"));
            continue;
        }
        write::put(&at, None, ".dockerignore", IGNORE).map_err(|error| {
            let what = format!("could not write `{}`", shown(&path));
            Failure::new(Code::Workspace, what).because(error)
        })?;
    }
    Ok(())
}

fn check(
    projects: &[Project],
    tree: &Tree,
    dir: &Path,
    printer: &Printer,
) -> Result<u8, Failure> {
    let mut code = 0;
    let mut lines = Vec::new();
    for project in projects {
        let place = place(project);
        let name = bulkhead_spec::escape(&place);
        let Some(old) = Source::read(&dir.join(&place), Links::Refused)? else {
            lines.push(format!("{name}: is not there\n"));
            code = 1;
            continue;
        };
        let new = dockerfile::render_again(tree, project, &old.text, &Pins::new());
        let drift = dockerfile::drift(&old.text, &new);
        if drift.is_empty() {
            lines.push(format!("{name}: fits\n"));
            continue;
        }
        code = 1;
        lines.push(format!("{name}: no longer fits\n"));
        lines.extend(drift.iter().map(|it| format!("  {}\n", bulkhead_spec::escape(it))));
    }
    printer.payload(&lines.concat())?;
    Ok(code)
}

fn tell(project: &Project, pins: &Pins, printer: &Printer) -> Result<(), Failure> {
    let (build, run) = dockerfile::bases(project);
    let pinned = pins.contains_key(&build) && pins.contains_key(&run);
    let how = if pinned { "by digest" } else { "by exact tag; no digest could be resolved" };
    let name = bulkhead_spec::escape(&place(project));
    let system = match &project.glibc {
        Some(why) => format!("Debian, because {why}"),
        None => "Alpine".to_owned(),
    };
    printer.payload(&format!(
        "wrote {name}: {} {} ({}), {system}; pinned {how}\n",
        project.language, project.release.version, project.release.because
    ))
}

fn described(project: &Project, pins: &Pins, text: &str) -> Value {
    let (build, run) = dockerfile::bases(project);
    let base = |image: &String| json!({ "image": image, "digest": pins.get(image) });
    json!({
        "dir": project.dir,
        "dockerfile": place(project),
        "language": project.language.to_string(),
        "version": project.release.version,
        "because": project.release.because,
        "glibc_because": project.glibc,
        "bases": [base(&build), base(&run)],
        "notes": project.notes,
        "text": text,
    })
}
