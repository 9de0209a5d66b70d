//! The verbs about rooms: sandboxes that stay.

pub(crate) mod attach;
pub(crate) mod checkpoint;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod end;
pub(crate) mod exec;
pub(crate) mod fork;
pub(crate) mod house;
mod join;
pub(crate) mod keep;
pub(crate) mod list;
pub(crate) mod pool;
pub(crate) mod port;
pub(crate) mod shim;
pub(crate) mod show;
pub(crate) mod update;

use bulkhead_engine::rooms::{
    Client, ClientError, Journal, JournalError, Keeping, Life, Listed, Why,
};
use bulkhead_policy::Policy;
use bulkhead_spec::escape;

use crate::{
    codes::Code,
    config::{ConfigError, Environment, Paths, Who},
    failure::Failure,
    printer::Printer,
    wish::Wish,
};

/// The rooms of this user. What cannot be read is moved aside first, and told.
fn journal(environment: &Environment, printer: &Printer) -> Result<Journal, Failure> {
    let journal = journal_in(&Paths::find(environment, Who::current()))?;
    for trouble in journal.quarantine().map_err(|error| of_journal(&error))? {
        printer.warning(&trouble.to_string());
    }
    for lost in journal.bury().map_err(|error| of_journal(&error))? {
        printer.note(&format!("the room `{}` was lost: its shim is gone", lost.name));
    }
    Ok(journal)
}

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

/// The room called `text`, which must live.
fn living(journal: &Journal, text: &str) -> Result<(Listed, Client), Failure> {
    let listed = journal.find(text).map_err(|error| of_journal(&error))?;
    match &listed.life {
        Life::Alive => {
            let client = Client::new(journal.socket(&listed.record.id));
            Ok((listed, client))
        }
        Life::Ended(end) => {
            let what = format!("the room `{}` has ended", escape(&listed.record.name));
            let failure = Failure::new(Code::Room, what).because(reason(&end.why));
            Err(match listed.record.keeping {
                Keeping::Memory => failure,
                Keeping::Disk => {
                    let name = escape(&listed.record.name);
                    failure.hint(format!("its disk is there: bulkhead start {name}"))
                }
            })
        }
    }
}

/// What ended a room, in words.
fn reason(why: &Why) -> String {
    match why {
        Why::Stopped => "it was stopped".to_owned(),
        Why::Expired => "its time was over".to_owned(),
        Why::Idle => "nobody had used it".to_owned(),
        Why::Lost => "its shim went away without a word".to_owned(),
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
        JournalError::Taken(_) => failure.hint("take another --name, or `bulkhead rm` it"),
        JournalError::Busy(_)
        | JournalError::Ambiguous { .. }
        | JournalError::Name(_)
        | JournalError::NoLayer
        | JournalError::Unreadable { .. }
        | JournalError::System { .. } => failure,
    }
}

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
            Failure { exit: Some(failed.exit), ..failure }
        }
        ClientError::Gone(_) | ClientError::Confused(_) => {
            Failure::from_error(Code::Room, error)
        }
    }
}
