//! `bulkhead trust`: let a project's file widen its sandbox, as it is now.

use std::path::{Path, PathBuf};

use super::{current_dir, image};
use crate::{
    args::TrustArgs,
    codes::Code,
    config::{
        Config, ConfigError, Environment, Links, MACHINE_FILE, PROJECT_FILE, Project,
        ProjectFrom, Revoked, Source, Sources, TrustStore, find_project, shown,
    },
    failure::Failure,
    printer::Printer,
};

/// Trusts, revokes or lists.
pub(crate) fn run(
    args: &TrustArgs,
    environment: Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    // The layers below the project's, which say what its file would widen.
    let sources = Sources { machine: MACHINE_FILE.into(), project: ProjectFrom::Absent };
    let config = Config::load(environment, &sources)?;
    let path = config.paths.trust().ok_or(ConfigError::Homeless)?;
    let mut store = TrustStore::read(&path)?;
    if args.list {
        let lines = store.all().iter().map(|it| format!("{}\n", it.path));
        printer.payload(&lines.collect::<Vec<String>>().concat())?;
        return Ok(0);
    }
    if args.revoke {
        return revoke(args, &config, &mut store, printer);
    }
    let source = named(args, &config)?;
    if image::is_recipe(&source.path) {
        // Even trust does not make it build what is never built.
        image::review(&source)?;
        store.trust(&source)?;
        let name = shown(&source.path);
        printer.payload(&format!("trusted `{name}`, exactly as it is now, to be built\n"))?;
        return Ok(0);
    }
    let layer = source.layer()?;
    let project = Project::judge(source, &layer, &config.layer, &config.defaults);
    let name = shown(&project.source.path);
    if project.widens.is_empty() {
        printer.note(&format!("`{name}` only narrows, so it needs no trust"));
        return Ok(0);
    }
    store.trust(&project.source)?;
    let lines: Vec<String> = project.widens.iter().map(|it| format!("  {it}\n")).collect();
    let lines = lines.concat();
    printer.payload(&format!("trusted `{name}`, exactly as it is now:\n{lines}"))?;
    Ok(0)
}

fn revoke(
    args: &TrustArgs,
    config: &Config,
    store: &mut TrustStore,
    printer: &Printer,
) -> Result<u8, Failure> {
    let path = match &args.file {
        // The file may be gone by now.
        Some(path) => absolute(path).unwrap_or_else(|_| path.clone()),
        None => project(config)?.path,
    };
    let name = shown(&path);
    match store.revoke(&path)? {
        Revoked::Trust => {
            printer.payload(&format!("`{name}` is trusted no more\n"))?;
            Ok(0)
        }
        Revoked::Nothing => {
            Err(Failure::new(Code::Untrusted, format!("`{name}` was not trusted"))
                .hint("`bulkhead trust --list` shows what is"))
        }
    }
}

fn named(args: &TrustArgs, config: &Config) -> Result<Source, Failure> {
    let Some(path) = &args.file else { return project(config) };
    let path = absolute(path)?;
    let source = Source::read(&path, Links::Refused)?;
    Ok(source.ok_or_else(|| ConfigError::absent(&path))?)
}

fn project(config: &Config) -> Result<Source, Failure> {
    let dir = current_dir()?;
    let found = find_project(&dir, config.environment.home().as_deref())?;
    found.ok_or_else(|| {
        Failure::new(Code::ConfigFile, format!("no project with a file `{PROJECT_FILE}` here"))
            .hint("name the file: bulkhead trust FILE")
    })
}

/// The path that a run would find: real directories, and the file's own name.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    let unreachable = |error| {
        Failure::new(Code::ConfigFile, format!("cannot find `{}`", shown(path))).because(error)
    };
    let parent = parent.canonicalize().map_err(unreachable)?;
    Ok(path.file_name().map_or_else(|| parent.clone(), |name| parent.join(name)))
}
