//! What a run begins before its arguments are read.
//!
//! Reading arguments and configuration takes about as long as the kernel takes for the namespaces of
//! a sandbox, so the latter are begun first.

use std::ffi::OsString;

use bulkhead_backends::{Beginning, Native};

use crate::{
    config::{Environment, Paths, Who},
    engine,
};

/// A backend that has begun a sandbox.
pub(crate) struct Ahead {
    /// The name of the sandbox, if the caller has none for it.
    pub(crate) id: String,
    /// The backend, if that is the one to be used.
    pub(crate) native: Native,
}

impl Ahead {
    /// Goes on with a sandbox as far as that can be without a plan.
    ///
    /// Whatever fails here is told when it is tried in earnest.
    pub(crate) fn of(beginning: Beginning, environment: &Environment) -> Option<Self> {
        if environment.get("BULKHEAD_BACKEND").is_some() {
            return None;
        }
        let paths = Paths::find(environment, Who::current());
        let id = fresh_id().ok()?;
        let native = Native::probe(engine::places(&paths, environment).ok()?);
        native.begin(&id, beginning);
        Some(Self { id, native })
    }
}

/// Begins a sandbox if `words`, the command line, look as if one were wanted. Guessing wrong costs a
/// little time and nothing else.
pub(crate) fn begin(words: impl Iterator<Item = OsString>) -> Option<Beginning> {
    // Who may open few files needs them all to hear that these are too few.
    let wanted = wants_sandbox(words) && engine::too_few_files().is_none();
    // Whatever fails here is told when it is tried in earnest.
    wanted.then(Beginning::now)?.ok()
}

fn wants_sandbox(mut words: impl Iterator<Item = OsString>) -> bool {
    words.next().is_some_and(|verb| verb == "run")
        && !words.take_while(|word| word != "--").any(|word| {
            ["-h", "--help", "--dry-run", "--no-sandbox", "--keep"].iter().any(|it| word == *it)
        })
}

/// A name that no other sandbox on this host has.
pub(crate) fn fresh_id() -> rustix::io::Result<String> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("bh-{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::wants_sandbox;

    fn wants(line: &str) -> bool {
        wants_sandbox(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn only_a_run_begins_a_sandbox() {
        assert!(wants("run true"));
        assert!(wants("run --memory 1g -- ls --help"));
        assert!(!wants("run --help"));
        assert!(!wants("run --dry-run -- true"));
        assert!(!wants("doctor"));
        assert!(!wants(""));
    }
}
