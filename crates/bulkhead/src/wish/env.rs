//! The variables that a sandbox starts with.
//!
//! It starts from nothing; what it gets is listed here.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
};

use bulkhead_policy::{may_inherit, safe_variables};
use bulkhead_spec::{GuestPath, Root, Walls, escape_bytes};

use super::{Asked, env_file};
use crate::{
    args::run::EnvArgs,
    config::Environment,
    failure::Failure,
    toolchains::{SYSTEM_PATH, Toolchains},
};

/// The home of a sandbox that has none of its own.
pub(super) const HOME: &str = "/home/sandbox";

/// Variables, and what the caller should know about them.
pub(super) struct Variables {
    pub(super) all: BTreeMap<OsString, OsString>,
    /// Those that an image may replace.
    pub(super) fallback: BTreeMap<OsString, OsString>,
    pub(super) warnings: Vec<String>,
}

/// All variables of the sandbox: the built-in, then configuration, files and flags.
pub(super) fn build(
    asked: &Asked<'_>,
    walls: Walls,
    (root, home): (&Root, Option<&GuestPath>),
    toolchains: &Toolchains,
) -> Result<Variables, Failure> {
    let host = &asked.config.environment;
    let mut all = built_in(asked, walls, home);
    all.extend(toolchains.env.clone());
    let mut fallback = BTreeMap::new();
    if let Root::Image(_) = root {
        // How its programs are found and what language they speak, the image knows better.
        let own = safe_variables().iter().chain(&["LANG", "PATH"]);
        for name in own {
            fallback.extend(all.remove_entry(OsStr::new(name)));
        }
        // Which shells it has is not known before it is here.
        all.remove(OsStr::new("SHELL"));
        fallback.insert("SHELL".into(), "/bin/sh".into());
    }
    if let Some(agent) = &asked.agent {
        let home = home.map_or(Path::new(HOME), GuestPath::as_path);
        all.extend(agent.env(host, home));
    }
    let mut found = Variables { all, fallback, warnings: Vec::new() };
    for (name, value) in asked.found.iter().flat_map(|it| &it.env) {
        // What Bulkhead says about itself and its user is not for a project to say.
        found.all.entry(name.into()).or_insert_with(|| value.into());
    }
    for (name, it) in &asked.config.layer.env {
        found.all.insert(name.clone(), it.value.clone());
    }
    for path in &asked.ask.env.files {
        for line in env_file::read(path)? {
            found.add_line(line, host);
        }
    }
    for text in &asked.ask.env.variables {
        found.add_flag(text, host);
    }
    Ok(found)
}

/// The variables that files and flags name, and nothing else.
pub(crate) fn named(
    args: &EnvArgs,
    host: &Environment,
) -> Result<BTreeMap<OsString, OsString>, Failure> {
    let (all, fallback) = (BTreeMap::new(), BTreeMap::new());
    let mut found = Variables { all, fallback, warnings: Vec::new() };
    for path in &args.files {
        for line in env_file::read(path)? {
            found.add_line(line, host);
        }
    }
    for text in &args.variables {
        found.add_flag(text, host);
    }
    Ok(found.all)
}

fn built_in(
    asked: &Asked<'_>,
    walls: Walls,
    home: Option<&GuestPath>,
) -> BTreeMap<OsString, OsString> {
    let host = &asked.config.environment;
    let copied = safe_variables().iter().filter_map(|name| Some((name, host.get(name)?)));
    let mut all: BTreeMap<OsString, OsString> =
        copied.map(|(name, value)| (name.into(), value.to_owned())).collect();
    all.entry("LANG".into()).or_insert_with(|| "C.UTF-8".into());
    let term = match (asked.caller.terminal, host.get("TERM")) {
        (None, _) => "dumb".into(),
        (Some(_), Some(term)) => term.to_owned(),
        (Some(_), None) => "xterm".into(),
    };
    let shell =
        match asked.ask.files.rootfs.as_deref().unwrap_or(Path::new("/")).join("bin/bash") {
            bash if bash.exists() => "/bin/bash",
            _ => "/bin/sh",
        };
    let own = |name: &str, inside: &OsStr| match (walls, host.get(name)) {
        (Walls::Waived, Some(value)) => value.to_owned(),
        (Walls::Waived, None) | (Walls::Up, _) => inside.to_owned(),
    };
    let home = home.map_or(OsStr::new(HOME), |home| home.as_path().as_os_str());
    let path = match &asked.ask.files.rootfs {
        None => own("PATH", OsStr::new(SYSTEM_PATH)),
        Some(_) => SYSTEM_PATH.into(),
    };
    let set = [
        ("PATH", path),
        ("HOME", own("HOME", home)),
        ("USER", own("USER", OsStr::new("sandbox"))),
        ("LOGNAME", own("LOGNAME", OsStr::new("sandbox"))),
        ("SHELL", shell.into()),
        ("TMPDIR", "/tmp".into()),
        ("TERM", term),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("BULKHEAD", "1".into()),
        ("SANDBOX", "bulkhead".into()),
        ("IS_SANDBOX", "1".into()),
    ];
    all.extend(set.map(|(name, value)| (OsString::from(name), value)));
    all
}

impl Variables {
    /// `KEY=VALUE`, or `KEY` to copy it from the host: the caller's own word.
    fn add_flag(&mut self, text: &OsStr, host: &Environment) {
        let Some((name, value)) = split(text.as_bytes()) else {
            if !may_inherit(&text.to_string_lossy()) {
                self.warnings.push(format!(
                    "the sandbox gets your {}; whatever runs in it can read it",
                    escape_bytes(text.as_bytes())
                ));
            }
            if let Some(value) = host.exact(text) {
                self.all.insert(text.to_owned(), value.to_owned());
            }
            return;
        };
        self.all.insert(name, value);
    }

    /// A line of a file. A bare name there copies by the dozen, so secrets are left out.
    fn add_line(&mut self, line: Vec<u8>, host: &Environment) {
        if let Some((name, value)) = split(&line) {
            self.all.insert(name, value);
            return;
        }
        let name = OsString::from_vec(line);
        if !may_inherit(&name.to_string_lossy()) {
            let name = escape_bytes(name.as_bytes());
            self.warnings.push(format!(
                "{name} is not copied from an --env-file, it looks like a secret; \
                 -e {name} copies it"
            ));
        } else if let Some(value) = host.exact(&name) {
            self.all.insert(name.clone(), value.to_owned());
        }
    }
}

fn split(text: &[u8]) -> Option<(OsString, OsString)> {
    let at = text.iter().position(|&it| it == b'=')?;
    let (name, rest) = text.split_at_checked(at)?;
    let value = rest.get(1..)?;
    Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())))
}
