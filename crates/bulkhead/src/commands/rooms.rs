//! The verbs about rooms: sandboxes that stay.

pub(crate) mod attach;
pub(crate) mod checkpoint;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod end;
pub(crate) mod exec;
pub(crate) mod fork;
mod here;
pub(crate) mod house;
mod join;
pub(crate) mod keep;
pub(crate) mod list;
pub(crate) mod pool;
pub(crate) mod port;
pub(crate) mod shim;
pub(crate) mod show;
pub(crate) mod update;

use bulkhead_engine::rooms::{ClientError, Journal, JournalError, Why};
use bulkhead_policy::Policy;
use bulkhead_spec::escape;

use crate::{
    codes::Code,
    config::{ConfigError, Paths},
    failure::Failure,
    wish::Wish,
};

fn journal_in(paths: &Paths) -> Result<Journal, Failure> {
    let (Some(state), Some(runtime)) = (&paths.state, &paths.runtime) else {
        return Err(ConfigError::Homeless.into());
    };
    Ok(Journal::new(state, runtime))
}

/// The rules of a room. How long a program may run and how much it may say by default is meant for
/// runs that nobody watches; a room has a life of its own, a server in it may live as long, and of
/// what it says only the last is kept.
pub(crate) fn policy(wish: &Wish) -> Policy {
    let mut policy = wish.policy.clone();
    policy.defaults.timeout = None;
    policy.defaults.output = None;
    policy
}

/// What ended a room, in words.
fn reason(why: &Why) -> String {
    match why {
        Why::Stopped => "it was stopped".to_owned(),
        Why::Expired => "its time was over".to_owned(),
        Why::Idle => "nobody had used it".to_owned(),
        Why::Lost => "its shim went away without a word".to_owned(),
        Why::Unbuilt(why) => format!("it could not be built: {why}"),
    }
}

fn of_journal(error: &JournalError) -> Failure {
    let code = match error {
        JournalError::Unknown(_)
        | JournalError::Ambiguous { .. }
        | JournalError::Taken(_)
        | JournalError::NoLayer
        | JournalError::Unreadable { .. } => Code::Room,
        JournalError::Busy(busy) => return Failure::busy(busy),
        JournalError::Name(_) => Code::Argument,
        JournalError::System { .. } => Code::Record,
    };
    let failure = Failure::from_error(code, error);
    match error {
        JournalError::Unknown(_) => failure.hint("`bulkhead ls --all` lists the rooms"),
        JournalError::Ambiguous { .. } => {
            failure.hint("write more of the name; `bulkhead ls --all` lists the rooms")
        }
        JournalError::Taken(_) => failure.hint("take another --name, or `bulkhead rm` it"),
        JournalError::Busy(_)
        | JournalError::Name(_)
        | JournalError::NoLayer
        | JournalError::Unreadable { .. }
        | JournalError::System { .. } => failure,
    }
}

/// Where to look when a room has gone.
const BECAME: &str = "`bulkhead ls --all` says what became of it";

fn of_client(error: &ClientError) -> Failure {
    match error {
        ClientError::Failed(failed) => {
            let code = match failed.kind.as_str() {
                "not_found" => Code::NotFound,
                "not_executable" => Code::NotExecutable,
                "no_dir" => Code::WorkDir,
                "denied" => Code::Denied,
                "busy" => Code::Full,
                _ => Code::Room,
            };
            let failure = Failure::new(code, escape(&failed.message));
            let causes = failed.causes.iter().map(|it| escape(it));
            let failure = causes.fold(failure, Failure::because);
            let failure = failed.hint.iter().map(|it| escape(it)).fold(failure, Failure::hint);
            let gone = failed.kind == "gone";
            let failure = gone.then_some(BECAME).into_iter().fold(failure, Failure::hint);
            Failure { exit: Some(failed.exit), ..failure }
        }
        ClientError::Gone(_) => Failure::from_error(Code::Room, error).hint(BECAME),
        ClientError::Confused(_) => Failure::from_error(Code::Room, error),
    }
}
