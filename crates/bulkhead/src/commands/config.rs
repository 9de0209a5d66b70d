//! `bulkhead config …`: what is configured, and who says so.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::current_dir;
use crate::{
    args::{ConfigVerb, FromArgs, GetArgs, PathArgs, ShowArgs},
    codes::Code,
    config::{
        Config, Entry, Environment, MACHINE_FILE, PROJECT_FILE, ProjectFrom, Sources,
        find_project, nearest, schema, shown,
    },
    failure::Failure,
    printer::Printer,
};

/// Prints a part of the configuration.
pub(crate) fn run(
    verb: &ConfigVerb,
    environment: Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let text = match verb {
        ConfigVerb::Show(args) => show(args, environment, printer)?,
        ConfigVerb::Get(args) => get(args, environment)?,
        ConfigVerb::Path(args) => path(args, &environment)?,
        ConfigVerb::Schema => format!("{:#}\n", schema()),
    };
    printer.payload(&text)?;
    Ok(0)
}

fn load(from: &FromArgs, environment: Environment) -> Result<Config, Failure> {
    let project = match &from.config {
        Some(path) => ProjectFrom::Named(path.clone()),
        None => ProjectFrom::Workspace(current_dir()?),
    };
    let sources = Sources::of(project, &environment);
    Ok(Config::load(environment, &sources)?)
}

fn show(
    args: &ShowArgs,
    environment: Environment,
    printer: &Printer,
) -> Result<String, Failure> {
    let config = load(&args.from, environment)?;
    config.warnings.iter().for_each(|it| printer.warning(it));
    if let Err(error) = config.check_trust() {
        printer.warning(&format!("{error}; nothing runs here until you type: bulkhead trust"));
    }
    let entries = config.entries();
    if args.json {
        let object: Map<String, Value> = entries.into_iter().map(in_json).collect();
        return Ok(format!("{:#}\n", Value::Object(object)));
    }
    let lines: Vec<(String, String)> = entries.iter().map(in_text).collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    let lines = lines.into_iter().map(|(line, origin)| {
        if args.origin { format!("{line:width$}  # {origin}\n") } else { format!("{line}\n") }
    });
    Ok(lines.collect::<Vec<String>>().concat())
}

fn in_json(entry: Entry) -> (String, Value) {
    let origins: Vec<String> = entry.origins.iter().map(ToString::to_string).collect();
    (entry.key, json!({ "value": entry.value, "origin": origins.join(", ") }))
}

/// A line of TOML, and where it came from.
fn in_text(entry: &Entry) -> (String, String) {
    let origins: Vec<String> = entry.origins.iter().map(ToString::to_string).collect();
    let line = format!("{} = {}", entry.key, entry.value);
    (bulkhead_spec::escape(&line), origins.join(", "))
}

fn get(args: &GetArgs, environment: Environment) -> Result<String, Failure> {
    let entries = load(&args.from, environment)?.entries();
    if let Some(entry) = entries.iter().find(|it| it.key == args.key) {
        let text = entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned);
        return Ok(format!("{}\n", bulkhead_spec::escape(&text)));
    }
    let key = bulkhead_spec::escape(&args.key);
    let failure = Failure::new(Code::UnknownKey, format!("nothing is configured as `{key}`"));
    Err(match nearest(&args.key, entries.iter().map(|it| it.key.as_str())) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`bulkhead config show` lists what is configured"),
    })
}

fn path(args: &PathArgs, environment: &Environment) -> Result<String, Failure> {
    let project = match (&args.from.config, environment.get("BULKHEAD_CONFIG")) {
        (Some(path), _) => path.clone(),
        (None, Some(path)) => PathBuf::from(path),
        (None, None) => {
            let dir = current_dir()?;
            let found = find_project(&dir, environment.home().as_deref())?;
            found.map_or_else(|| dir.join(PROJECT_FILE), |source| source.path)
        }
    };
    let paths = crate::config::Paths::find(environment, crate::config::Who::current());
    let named = [
        ("machine", Some(Path::new(MACHINE_FILE))),
        ("user", paths.user_file.as_deref()),
        ("project", Some(project.as_path())),
        ("state", paths.state.as_deref()),
        ("data", paths.data.as_deref()),
        ("cache", paths.cache.as_deref()),
        ("runtime", paths.runtime.as_deref()),
    ];
    let named = named.into_iter().filter_map(|(name, path)| Some((name, path?)));
    if args.json {
        let entry = |(name, path): (&str, &Path)| {
            (name.to_owned(), json!({ "path": shown(path), "exists": path.exists() }))
        };
        let object: Map<String, Value> = named.map(entry).collect();
        return Ok(format!("{:#}\n", Value::Object(object)));
    }
    let line = |(name, path): (&str, &Path)| {
        let absent = if path.exists() { "" } else { "  (absent)" };
        format!("{name:8} {}{absent}\n", shown(path))
    };
    Ok(named.map(line).collect::<Vec<String>>().concat())
}
