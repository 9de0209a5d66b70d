//! `bulkhead shim`: the process that holds one room. Started by `create`, not by people.

use std::{
    io::{self, Read as _, Write as _},
    sync::Arc,
};

use bulkhead_engine::rooms::{Ready, Record, hold};
use serde_json::json;

use super::journal_in;
use crate::{
    codes::Code,
    config::{Choice, Environment, Paths, RuntimeName, Who},
    engine::{self, Tell, Wanted},
    failure::Failure,
};

/// Reads what room is wanted from stdin, says on stdout whether it came to be, and holds it.
pub(crate) fn run(environment: &Environment) -> Result<u8, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::System, "could not become the shim of a room").because(error)
    };
    // A session of its own: the terminal that this began on may go away.
    rustix::process::setsid().map_err(|errno| failed(errno.into()))?;
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(failed)?;
    let record: Record =
        serde_json::from_str(&text).map_err(|error| failed(io::Error::other(error)))?;
    let held = hold_it(environment, record);
    if let Err(failure) = &held {
        say(&failure.json(failure.exit.unwrap_or(125)));
    }
    held.map(|()| 0)
}

fn hold_it(environment: &Environment, record: Record) -> Result<(), Failure> {
    let odd = |why: String| Failure::new(Code::Argument, "cannot build").because(why);
    let choice: Choice = record.backend.parse().map_err(odd)?;
    let named = record.runtime.as_ref().map(|it| it.parse::<RuntimeName>());
    let named = named.transpose().map_err(odd)?;
    let paths = Paths::find(environment, Who::current());
    let journal = journal_in(&paths)?;
    let runtime = engine::runtime()?;
    let done = runtime.block_on(async {
        // Whoever began this hears only how it went.
        let tell_nobody: Tell = Arc::new(|_| ());
        let wanted = Wanted {
            choice,
            runtime: named.as_ref(),
            spec: &record.spec,
            policy: &record.policy,
            paths: &paths,
            environment,
            tell: &tell_nobody,
        };
        let backends = engine::offer(&wanted).await?.backends;
        let engine = engine::recording(
            record.policy.clone(),
            backends,
            &paths,
            environment,
            engine::Listeners::default(),
        )?;
        engine.sweep().await.map_err(|error| Failure::of_run(&error))?;
        let held = hold(&engine, &journal, record, tell).await;
        held.map_err(|error| Failure::new(Code::Room, "could not end the room").because(error))
    });
    runtime.shutdown_background();
    done
}

fn tell(ready: Ready) {
    let said = match ready {
        Ready::Yes => json!({ "ready": true }),
        Ready::Journal(error) => super::of_journal(&error).json(125),
        Ready::Room(error) => Failure::of_run(&error).json(error.exit_code()),
        Ready::System(error) => {
            let failure = Failure::new(Code::System, "the room cannot be talked to");
            failure.because(error).json(125)
        }
    };
    say(&said);
    leave_streams();
}

/// One line for whoever started us; it may be gone, and the room is there all the same.
fn say(what: &serde_json::Value) {
    let mut out = io::stdout().lock();
    writeln!(out, "{what}").and_then(|()| out.flush()).unwrap_or_default();
}

/// Lets go of the streams: whoever waits for them to end need not wait for the room.
fn leave_streams() {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let Ok(null) = null else { return };
    rustix::stdio::dup2_stdin(&null).unwrap_or_default();
    rustix::stdio::dup2_stdout(&null).unwrap_or_default();
    rustix::stdio::dup2_stderr(&null).unwrap_or_default();
}
