//! The rules of a sandbox that runs.

use std::{fs, io, path::Path};

use bulkhead_engine::way_out::{self, Ask, Reply, socket_of};
use bulkhead_spec::{Sourced, escape};

use super::listed;
use crate::{
    args::policy::ChangeArgs,
    codes::Code,
    config::{ConfigError, Environment, Paths, Who},
    failure::Failure,
    printer::Printer,
};

/// Where a rule came from that was said while a sandbox ran.
const ORIGIN: &str = "bulkhead policy";

pub(super) fn allow(
    args: &ChangeArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let rules = rules_of(args, bulkhead_spec::allowing)?;
    change(args, &Ask::Allow { rules }, environment, printer)
}

pub(super) fn deny(
    args: &ChangeArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let rules = rules_of(args, bulkhead_spec::denying)?;
    change(args, &Ask::Deny { rules }, environment, printer)
}

pub(super) fn remove(
    args: &ChangeArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let rules = rules_of(args, bulkhead_spec::denying)?;
    change(args, &Ask::Remove { rules }, environment, printer)
}

type Understand = fn(&str, &str) -> Result<Vec<Sourced>, bulkhead_spec::InvalidRule>;

fn rules_of(args: &ChangeArgs, understand: Understand) -> Result<Vec<Sourced>, Failure> {
    let mut rules = Vec::new();
    for text in &args.hosts {
        let said = understand(text, ORIGIN)
            .map_err(|error| Failure::from_error(Code::Argument, &error))?;
        rules.extend(said);
    }
    Ok(rules)
}

fn change(
    args: &ChangeArgs,
    question: &Ask,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let name = match &args.sandbox {
        Some(name) => name.clone(),
        None => only_one(environment)?,
    };
    match ask(&name, question, environment)? {
        Reply::Rules { allow, deny, .. } => {
            printer.payload(&listed(&allow, &deny))?;
            Ok(0)
        }
        Reply::Refused { why } => Err(Failure::new(Code::Argument, why)),
        Reply::Verdict { .. } => {
            Err(Failure::new(Code::System, "the sandbox answered something else"))
        }
    }
}

/// The rules of the running sandbox `name`.
pub(super) fn rules(
    name: &str,
    environment: &Environment,
) -> Result<(Vec<Sourced>, Vec<Sourced>), Failure> {
    match ask(name, &Ask::Rules, environment)? {
        Reply::Rules { allow, deny, .. } => Ok((allow, deny)),
        Reply::Refused { .. } | Reply::Verdict { .. } => {
            Err(Failure::new(Code::System, "the sandbox answered something else"))
        }
    }
}

/// Asks the running sandbox `name`.
pub(super) fn ask(
    name: &str,
    question: &Ask,
    environment: &Environment,
) -> Result<Reply, Failure> {
    let dir = sockets(environment)?;
    if name.contains('/') {
        return Err(absent(name, &dir));
    }
    way_out::ask(&socket_of(&dir, name), question).map_err(|error| {
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
            return absent(name, &dir);
        }
        Failure::new(Code::System, "could not ask the sandbox").because(error)
    })
}

fn sockets(environment: &Environment) -> Result<std::path::PathBuf, Failure> {
    let paths = Paths::find(environment, Who::current());
    Ok(paths.rules().ok_or(ConfigError::Homeless)?)
}

fn absent(name: &str, dir: &Path) -> Failure {
    let what = format!("no sandbox `{}` with a gateway runs here", escape(name));
    let running = running(dir).join(", ");
    let failure = Failure::new(Code::Room, what);
    if running.is_empty() { failure } else { failure.hint(format!("those that do: {running}")) }
}

/// The sandboxes that answer.
fn running(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let name = |it: fs::DirEntry| {
        let name = it.file_name().to_str()?.strip_suffix(".sock")?.to_owned();
        way_out::ask(&it.path(), &Ask::Rules).is_ok().then_some(name)
    };
    entries.filter_map(name).collect()
}

fn only_one(environment: &Environment) -> Result<String, Failure> {
    let all = running(&sockets(environment)?);
    match all.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::new(Code::Room, "no sandbox with a gateway runs here")),
        [_, _, ..] => Err(Failure::new(Code::Argument, "several sandboxes run here")
            .hint(format!("name one with --sandbox: {}", all.join(", ")))),
    }
}
