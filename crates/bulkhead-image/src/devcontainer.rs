//! What a `devcontainer.json` asks for: the parts that are safe, and a reason against the others.
//!
//! The file comes with the project, so somebody else may have written it. A field that would run
//! something on the host, widen the container or reach out of the project is an error and not a
//! field that is skipped: whoever wrote it meant it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Where the file can be.
pub const PLACES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// Fields that are refused, each with its reason.
const REFUSED: &[(&str, &str)] = &[
    ("initializeCommand", "runs on the host before there is any container"),
    ("privileged", "takes all walls away"),
    ("runArgs", "hands raw flags to the engine"),
    ("mounts", "would show files of the host; use --mount"),
    ("workspaceMount", "would show files of the host; use --workspace"),
    ("capAdd", "gives back what was dropped"),
    ("securityOpt", "switches walls off"),
    ("dockerComposeFile", "starts containers beside the sandbox"),
    ("features", "runs installers from elsewhere as root; put them into the Dockerfile"),
    ("appPort", "opens ports of the host"),
    ("forwardPorts", "opens ports of the host"),
    ("hostRequirements", "is not checked here; use --memory and --cpus"),
    ("secrets", "asks for secrets of the host; use -e"),
];

/// Fields that say something to editors, and nothing to a sandbox.
const EDITORS: &[&str] = &[
    "$schema",
    "name",
    "customizations",
    "extensions",
    "settings",
    "shutdownAction",
    "overrideCommand",
    "portsAttributes",
    "otherPortsAttributes",
    "updateRemoteUserUID",
    "userEnvProbe",
    "waitFor",
    "init",
    "remoteEnv",
    "postAttachCommand",
];

/// Commands for after the container is there: it is up to the caller to run them inside.
const LATER: &[&str] =
    &["onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand"];

/// What is taken from the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devcontainer {
    /// Where the root filesystem comes from.
    pub base: Base,
    /// Variables for every program.
    pub env: BTreeMap<String, String>,
    /// Who programs are.
    pub user: Option<String>,
    /// Where the workspace is seen.
    pub workspace: Option<String>,
    /// What was not taken, and is harmless.
    pub notes: Vec<String>,
}

/// An image, or how to build one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The file names neither.
    #[default]
    Unsaid,
    /// An image by its reference.
    Image(String),
    /// A Dockerfile, seen from the directory of the file.
    Build {
        /// Which file.
        dockerfile: String,
        /// Where it may copy from.
        context: String,
        /// Values for its arguments.
        args: BTreeMap<String, String>,
        /// Which stage.
        target: Option<String>,
    },
}

/// Why the file is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DevcontainerError {
    /// It is not JSON, even with comments allowed.
    #[error("it is not JSON: {0}")]
    Syntax(String),
    /// A field that is refused.
    #[error("`{field}` {why}")]
    Refused {
        /// Which field.
        field: String,
        /// Why.
        why: String,
    },
}

/// Reads the file.
pub fn parse(text: &str) -> Result<Devcontainer, DevcontainerError> {
    let value: Value = serde_json::from_str(&without_comments(text))
        .map_err(|error| DevcontainerError::Syntax(error.to_string()))?;
    let fields = value
        .as_object()
        .ok_or_else(|| DevcontainerError::Syntax("it is not an object".to_owned()))?;
    let mut found = Devcontainer::default();
    for (field, value) in fields {
        found.take(field, value)?;
    }
    found.base = base(fields)?;
    Ok(found)
}

impl Devcontainer {
    fn take(&mut self, field: &str, value: &Value) -> Result<(), DevcontainerError> {
        if let Some((_, why)) = REFUSED.iter().find(|it| it.0 == field) {
            // Switched off or empty, it asks for nothing.
            let empty = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(items) => items.is_empty(),
                Value::String(text) => text.is_empty(),
                Value::Bool(true) | Value::Number(_) => false,
            };
            return if empty { Ok(()) } else { Err(refused(field, *why)) };
        }
        match field {
            "image" | "build" | "dockerFile" | "context" => {}
            "containerEnv" => self.env = strings(field, value)?,
            "remoteUser" | "containerUser" => {
                let user = text(field, value)?;
                let plain = |it: char| it.is_ascii_alphanumeric() || "_-".contains(it);
                if !user.chars().all(plain) || matches!(user.as_str(), "root" | "0") {
                    return Err(refused(field, "must be an ordinary user"));
                }
                self.user = Some(user);
            }
            "workspaceFolder" => {
                let path = text(field, value)?;
                if !path.starts_with('/') || path.contains("..") || path.contains('$') {
                    return Err(refused(field, "must be an absolute path"));
                }
                self.workspace = Some(path);
            }
            field if LATER.contains(&field) => {
                self.notes.push(format!("`{field}` is not run; run it yourself, inside"));
            }
            field if EDITORS.contains(&field) => {}
            field => {
                let field = bulkhead_spec::escape(field);
                self.notes.push(format!("`{field}` is not known and counts for nothing"));
            }
        }
        Ok(())
    }
}

fn base(fields: &Map<String, Value>) -> Result<Base, DevcontainerError> {
    let build = fields.get("build").and_then(Value::as_object);
    let said = |name: &str| build.and_then(|it| it.get(name));
    let dockerfile = said("dockerfile").or(fields.get("dockerFile"));
    let image = fields.get("image").map(|it| text("image", it)).transpose()?;
    let Some(dockerfile) = dockerfile else {
        let Some(image) = image else { return Ok(Base::Unsaid) };
        if image.contains('$') {
            return Err(refused("image", "must not take values of the host"));
        }
        return Ok(Base::Image(image));
    };
    if said("options").is_some() {
        return Err(refused("build.options", "hands raw flags to the builder"));
    }
    if said("cacheFrom").is_some() {
        return Err(refused("build.cacheFrom", "takes layers that somebody else built"));
    }
    let context = said("context").or(fields.get("context"));
    let inside = |field: &str, value: &Value| -> Result<String, DevcontainerError> {
        let path = text(field, value)?;
        // One step up is the project: the file itself lies one below.
        let climbs = path.split('/').filter(|it| *it == "..").count() > 1;
        if path.starts_with('/') || climbs || path.contains('$') {
            return Err(refused(field, "reaches outside of the project"));
        }
        Ok(path)
    };
    let args = said("args").map(|it| strings("build.args", it)).transpose()?;
    Ok(Base::Build {
        dockerfile: inside("build.dockerfile", dockerfile)?,
        context: context
            .map_or_else(|| Ok(".".to_owned()), |it| inside("build.context", it))?,
        args: args.unwrap_or_default(),
        target: said("target").map(|it| text("build.target", it)).transpose()?,
    })
}

fn refused(field: &str, why: impl Into<String>) -> DevcontainerError {
    DevcontainerError::Refused { field: field.to_owned(), why: why.into() }
}

fn text(field: &str, value: &Value) -> Result<String, DevcontainerError> {
    value.as_str().map(str::to_owned).ok_or_else(|| refused(field, "must be a text"))
}

/// A table of texts, none of which takes a variable of the host.
fn strings(field: &str, value: &Value) -> Result<BTreeMap<String, String>, DevcontainerError> {
    let table = value.as_object().ok_or_else(|| refused(field, "must be a table of texts"))?;
    let mut found = BTreeMap::new();
    for (name, value) in table {
        let value = text(&format!("{field}.{name}"), value)?;
        if value.contains("${") {
            let field = format!("{field}.{}", bulkhead_spec::escape(name));
            return Err(refused(&field, "must not take values of the host"));
        }
        found.insert(name.clone(), value);
    }
    Ok(found)
}

/// JSON as editors write it: without its comments and without commas before a closing bracket.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(it) = rest.next() {
        match (it, rest.peek()) {
            ('"', _) => {
                plain.push(it);
                while let Some(inner) = rest.next() {
                    plain.push(inner);
                    match inner {
                        '\\' => plain.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => while rest.next_if(|it| *it != '\n').is_some() {},
            ('/', Some('*')) => {
                rest.next();
                let mut last = ' ';
                for inner in rest.by_ref() {
                    if last == '*' && inner == '/' {
                        break;
                    }
                    last = inner;
                }
                plain.push(' ');
            }
            (']' | '}', _) => {
                let end = plain.trim_end().len();
                if plain.get(..end).is_some_and(|it| it.ends_with(',')) {
                    plain.truncate(end - 1);
                }
                plain.push(it);
            }
            (it, _) => plain.push(it),
        }
    }
    plain
}
