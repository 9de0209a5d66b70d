//! Where the rooms are: on this host, or on a server that `BULKHEAD_HOST` names.

use std::{collections::BTreeMap, time::Duration};

use bulkhead::{
    Remote, SandboxError,
    words::{NewSandbox, SandboxInfo, SandboxPage, SandboxState},
};
use bulkhead_engine::rooms::{Client, JournalError, Keeping, Life, Listed};
use bulkhead_spec::escape;
use http::Method;

use super::{here::Here, of_journal, reason};
use crate::{
    codes::Code,
    config::{Environment, Paths, Who},
    engine,
    failure::Failure,
    printer::Printer,
};

/// The variable that names a server.
pub(crate) const HOST: &str = "BULKHEAD_HOST";
/// The variable that has the key to it.
const KEY: &str = "BULKHEAD_KEY";

/// The rooms that verbs are about.
pub(super) enum House {
    /// Those of this user on this host.
    Here(Here),
    /// Those of a server.
    There(Remote),
}

/// A room as both kinds know it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub(super) made: u64,
    pub(super) backend: String,
    pub(super) life: Lives,
    /// The directory that it works on.
    pub(super) workspace: Option<String>,
    /// Whether its disk outlives it.
    pub(super) keeping: Keeping,
    /// What it began with, which may be of no use when it has gone. A server sees to its own.
    pub(super) layers: Vec<String>,
}

/// Whether a room lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lives {
    Yes,
    /// It ended then, for this reason.
    No {
        at: u64,
        why: String,
    },
}

impl Seen {
    pub(super) fn lives(&self) -> bool {
        self.life == Lives::Yes
    }
}

/// The server that is named, if one is.
pub(crate) fn named(environment: &Environment) -> Result<Option<Remote>, Failure> {
    let Some(address) = environment.get(HOST) else { return Ok(None) };
    let address = address.to_string_lossy();
    let key = match environment.get(KEY) {
        Some(key) => Some(key.to_string_lossy().into_owned()),
        None => in_file(environment),
    };
    let remote = Remote::at(&address, key.as_deref());
    remote.map(Some).map_err(|error| {
        let hint = format!("{HOST} is such as unix:///run/bulkhead/bulkhead.sock");
        Failure::from_error(Code::BadValue, &error).hint(hint)
    })
}

/// The key in the file beside the user's configuration.
fn in_file(environment: &Environment) -> Option<String> {
    let paths = Paths::find(environment, Who::current());
    let file = paths.user_file?.with_file_name("key");
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// Refuses a verb that is about this machine while another one is named.
pub(crate) fn refuse(verb: &str, environment: &Environment) -> Result<(), Failure> {
    if environment.get(HOST).is_none() {
        return Ok(());
    }
    let what = format!("`bulkhead {verb}` works on this machine, and {HOST} names a server");
    Err(Failure::new(Code::Argument, what)
        .hint(format!("unset {HOST}, or use the verbs about rooms: create, cp, exec, rm")))
}

impl House {
    /// The rooms that are meant.
    pub(super) fn open(environment: &Environment, printer: &Printer) -> Result<Self, Failure> {
        match named(environment)? {
            Some(remote) => Ok(Self::There(remote)),
            None => Here::open(environment, printer).map(Self::Here),
        }
    }

    /// All rooms; those that have ended too.
    pub(super) fn list(&self) -> Result<Vec<Seen>, Failure> {
        match self {
            Self::Here(rooms) => Ok(rooms.list()?.iter().map(here).collect()),
            Self::There(remote) => engine::runtime()?.block_on(async {
                let (mut all, mut cursor) = (Vec::new(), None::<String>);
                loop {
                    let next = cursor.map(|it| format!("&cursor={it}")).unwrap_or_default();
                    let path = format!("/v1/sandboxes?all=true{next}");
                    let page = remote.ask(&Method::GET, &path, None::<&()>).await;
                    let page: SandboxPage = page.map_err(|error| of_server(&error))?;
                    all.extend(page.sandboxes.iter().map(there));
                    match page.next_cursor {
                        Some(next) => cursor = Some(next),
                        None => return Ok(all),
                    }
                }
            }),
        }
    }

    /// The room called `text`: its name or its id, or a beginning that only one has.
    pub(super) fn find(&self, text: &str) -> Result<Seen, Failure> {
        let remote = match self {
            Self::Here(rooms) => return rooms.find(text).map(|it| here(&it)),
            Self::There(remote) => remote,
        };
        if is_whole(text) {
            let found = engine::runtime()?.block_on(show(remote, text));
            match found {
                Ok(found) => return Ok(there(&found)),
                Err(SandboxError::Problem(problem)) if problem.status == 404 => {}
                Err(error) => return Err(of_server(&error)),
            }
        }
        let rooms = self.list()?;
        let begins = |it: &&Seen| {
            !text.is_empty() && (it.name.starts_with(text) || it.id.starts_with(text))
        };
        let mut found: Vec<&Seen> = rooms.iter().filter(begins).collect();
        match (found.pop(), found.as_slice()) {
            (Some(found), []) => Ok(found.clone()),
            (None, _) => Err(of_journal(&JournalError::Unknown(text.to_owned()))),
            (Some(last), others) => {
                let names = others.iter().copied().chain([last]).map(|it| it.name.clone());
                let (text, candidates) = (text.to_owned(), names.collect());
                Err(of_journal(&JournalError::Ambiguous { text, candidates }))
            }
        }
    }

    /// The room called `text`, which must live.
    pub(super) fn living(&self, text: &str) -> Result<(Seen, Client), Failure> {
        if let Self::Here(rooms) = self {
            return rooms.living(text).map(|(listed, client)| (here(&listed), client));
        }
        let seen = self.find(text)?;
        if let Lives::No { why, .. } = &seen.life {
            let what = format!("the room `{}` has ended", escape(&seen.name));
            return Err(Failure::new(Code::Room, what).because(why));
        }
        let client = self.client(&seen.id);
        Ok((seen, client))
    }

    /// A client of the room `id`.
    pub(super) fn client(&self, id: &str) -> Client {
        match self {
            Self::Here(rooms) => Client::new(rooms.journal.socket(id)),
            Self::There(remote) => remote.client(id),
        }
    }

    /// Waits until the shim of a room that ends has let go: it writes the tombstone last.
    pub(super) fn settle(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Here(rooms) => engine::runtime()?.block_on(rooms.journal.settled(id)),
            Self::There(_) => {
                for _ in 0..500 {
                    match self.find(id) {
                        Ok(seen) if seen.lives() => {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        Ok(_) | Err(_) => break,
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets a room that has ended.
    pub(super) fn forget(&self, id: &str) -> Result<(), Failure> {
        match self {
            Self::Here(rooms) => rooms.journal.forget(id).map_err(|it| of_journal(&it)),
            Self::There(remote) => {
                let path = format!("/v1/sandboxes/{id}");
                let told = engine::runtime()?.block_on(remote.tell(&Method::DELETE, &path));
                told.map_err(|error| of_server(&error))
            }
        }
    }
}

/// Makes a room on a server.
pub(super) async fn create(
    remote: &Remote,
    wanted: &NewSandbox,
) -> Result<SandboxInfo, Failure> {
    let made = remote.ask(&Method::POST, "/v1/sandboxes", Some(wanted)).await;
    made.map_err(|error| of_server(&error))
}

async fn show(remote: &Remote, id: &str) -> Result<SandboxInfo, SandboxError> {
    remote.ask(&Method::GET, &format!("/v1/sandboxes/{id}"), None::<&()>).await
}

/// Whether `text` can be a whole name, and is nothing else in a path.
pub(super) fn is_whole(text: &str) -> bool {
    let fine = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    text.bytes().all(fine) && text.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric())
}

fn here(listed: &Listed) -> Seen {
    let record = &listed.record;
    Seen {
        id: record.id.clone(),
        name: record.name.clone(),
        labels: record.labels.clone(),
        made: record.made,
        backend: record.backend.clone(),
        life: match &listed.life {
            Life::Alive => Lives::Yes,
            Life::Ended(end) => Lives::No { at: end.at, why: reason(&end.why) },
        },
        workspace: record.spec.workspace.as_ref().map(|it| it.dir.to_string()),
        keeping: record.keeping,
        layers: record.layers.clone(),
    }
}

fn there(info: &SandboxInfo) -> Seen {
    let moment = |text: &str| bulkhead_server::seconds_of(text).unwrap_or(0);
    Seen {
        id: info.id.clone(),
        name: info.name.clone(),
        labels: info.labels.clone(),
        made: moment(&info.created_at),
        backend: info.backend.clone(),
        life: match (&info.ended, info.state) {
            (Some(ended), _) => Lives::No { at: moment(&ended.at), why: ended.why.clone() },
            (None, SandboxState::Ended) => Lives::No { at: 0, why: "it ended".to_owned() },
            (None, SandboxState::Running | SandboxState::Paused | SandboxState::Changing) => {
                Lives::Yes
            }
        },
        workspace: None,
        keeping: if info.persistent { Keeping::Disk } else { Keeping::Memory },
        layers: Vec::new(),
    }
}

/// What a server did not do.
pub(super) fn of_server(error: &SandboxError) -> Failure {
    let failure = if let SandboxError::Problem(problem) = error {
        let code = Code::ALL.iter().copied().find(|it| it.name() == problem.code);
        Failure::new(code.unwrap_or(Code::Room), escape(&problem.detail))
    } else if let SandboxError::Unreachable(_) = error {
        Failure::from_error(Code::Door, error)
            .hint(format!("{HOST} names the server; is it running? bulkhead serve"))
    } else {
        Failure::from_error(Code::Room, error)
    };
    error.hint().map(escape).into_iter().fold(failure, Failure::hint)
}
