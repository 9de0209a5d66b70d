//! From a program that was asked for to one that may run.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use bulkhead_spec::{Entry, Exec, GuestPath, Span};

use crate::{Denial, ExecPlan, Plan, resolve::limits};

/// Arguments and variables together; the kernel's own limit is of this order.
const MOST_WORDS: usize = 1 << 20;

impl Plan {
    /// Decides whether `exec` may run in this sandbox.
    pub fn admit(&self, exec: Exec) -> Result<ExecPlan, Denial> {
        check_variables(&exec.env)?;
        let mut env = self.env.clone();
        env.extend(exec.env);
        let argv = self.argv(exec.entry, exec.argv)?;
        check_words(&argv, &env)?;
        let dir = exec.dir.unwrap_or_else(|| self.start());
        if dir.as_path().starts_with("/proc") {
            return Err(Denial::Dir(dir));
        }
        let timeout = limits::timeout(exec.timeout, self.limits.timeout)?;
        Ok(ExecPlan {
            argv,
            dir,
            env,
            timeout,
            grace: Span(exec.grace),
            stdin: exec.stdin,
            terminal: exec.terminal,
        })
    }

    /// What runs for `words`, given what the image has to say about it.
    fn argv(&self, entry: Entry, words: Vec<OsString>) -> Result<Vec<OsString>, Denial> {
        let (Entry::Image, Some(image)) = (entry, &self.image) else { return Ok(words) };
        let rest = if words.is_empty() { image.command.clone() } else { words };
        let argv = [image.entrypoint.clone(), rest].concat();
        if argv.is_empty() { Err(Denial::NoEntry(image.name.clone())) } else { Ok(argv) }
    }

    /// Where a program starts that does not say.
    pub fn start(&self) -> GuestPath {
        let workspace = self.workspace.as_ref().map(|it| it.dir.as_path().to_owned());
        workspace
            .and_then(|dir| GuestPath::try_from(dir).ok())
            .or_else(|| self.image.as_ref()?.dir.clone())
            .unwrap_or_else(|| self.home.clone())
    }
}

pub(crate) fn check_variables(env: &BTreeMap<OsString, OsString>) -> Result<(), Denial> {
    let named = |name: &OsStr| !name.is_empty() && !name.as_encoded_bytes().contains(&b'=');
    if env.keys().all(|name| named(name)) {
        Ok(())
    } else {
        Err(Denial::Malformed("the name of a variable is empty or contains `=`"))
    }
}

fn check_words(argv: &[OsString], env: &BTreeMap<OsString, OsString>) -> Result<(), Denial> {
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err(Denial::NoProgram);
    }
    let words = || argv.iter().chain(env.keys()).chain(env.values());
    if words().any(|word| word.as_encoded_bytes().contains(&0)) {
        return Err(Denial::Malformed("an argument or a variable contains a NUL byte"));
    }
    if MOST_WORDS < words().map(|word| word.len() + 1).sum() {
        return Err(Denial::Malformed(
            "the arguments and variables are longer than 1 MiB; pass large input in a file",
        ));
    }
    Ok(())
}
