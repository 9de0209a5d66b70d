//! Rooms that are made ahead, so that whoever wants one does not wait for it.
//!
//! A room is parked by a shim of its own, like any other room, under a [`Key`]: everything that it
//! was made from. Whoever wants a room of the same key is given it by that shim, which tells it who
//! it is: name, labels, variables, time to live.
//!
//! Invariant: a parked room is given out only to somebody who would have been built the same room.
//! The key finds candidates; the shim compares.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bulkhead_spec::{Pull, Root, Word};
use serde::{Deserialize, Serialize};
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::{
    Admission, Busy,
    client::{Client, ClientError},
    journal::{
        Journal, JournalError, Keeping, Lifetime, Listed, Pooled, Quota, Record, Wish, now,
    },
    launch::{LaunchError, launch},
    protocol::Failed,
};

/// When it is worth another try to get one more room.
const RETRY: Duration = Duration::from_secs(5);

/// What a room was made from, as a name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of a room that `program` (Bulkhead itself) makes from `record`; `None` for a room that
    /// cannot be made before it is wanted, because what is there then decides what it is.
    pub fn of(record: &Record, program: &Path) -> Option<Self> {
        Some(Shape::of(record, program)?.key())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// All that two rooms must have in common to be the same but for who has them, as a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape(String);

impl Shape {
    pub(super) fn of(record: &Record, program: &Path) -> Option<Self> {
        let spec = &record.spec;
        // What must be hidden in a workspace is looked for when somebody wants to work there.
        if spec.workspace.is_some() {
            return None;
        }
        // A name in a network, the value of a secret and what is on a disk are somebody's from the
        // beginning.
        let somebodys = spec.egress.network.is_some() || !spec.egress.secrets.is_empty();
        if somebodys || !record.layers.is_empty() || record.keeping == Keeping::Disk {
            return None;
        }
        if let Root::Image(image) = &spec.root
            && image.pull == Pull::Always
        {
            return None;
        }
        let mut bare = spec.clone();
        bare.env.clear();
        bare.fallback_env.clear();
        let root = match &spec.root {
            Root::Directory(dir) => Some(dir.as_path()),
            Root::Host | Root::Image(_) => None,
        };
        let shared = spec.mounts.iter().map(|it| it.from.as_path()).chain(root);
        let shared: Vec<_> = shared.map(identity).collect();
        let (bare, policy) =
            (serde_json::to_string(&bare), serde_json::to_string(&record.policy));
        let others = (&record.backend, &record.runtime, shared, identity(program));
        let others = serde_json::to_string(&(others, env!("CARGO_PKG_VERSION")));
        Some(Self([bare.ok()?, policy.ok()?, others.ok()?].join("\n")))
    }

    fn key(&self) -> Key {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        Key(format!("{:016x}", hasher.finish()))
    }
}

/// Which file a path leads to at this moment, and which state of it.
fn identity(path: &Path) -> Option<(u64, u64, i64, i64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    // A directory is the same one when something was put into it.
    let file = found.is_file();
    let state =
        if file { (found.mtime(), found.mtime_nsec(), found.size()) } else { (0, 0, 0) };
    Some((found.dev(), found.ino(), state.0, state.1, state.2))
}

/// Who a parked room is from now on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HandOut {
    pub(super) shape: Shape,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) lifetime: Lifetime,
    pub(super) quota: Quota,
    env: Vec<(Word, Word)>,
    fallback_env: Vec<(Word, Word)>,
}

impl HandOut {
    /// The record of the room once it is somebody's.
    pub(super) fn onto(&self, parked: &Record) -> Record {
        let plain = |pairs: &[(Word, Word)]| -> BTreeMap<OsString, OsString> {
            pairs.iter().map(|(name, value)| (name.0.clone(), value.0.clone())).collect()
        };
        let fresh = Record::new(
            parked.id.clone(),
            self.name.clone(),
            parked.spec.clone(),
            parked.policy.clone(),
        );
        let mut record = Record {
            labels: self.labels.clone(),
            lifetime: self.lifetime,
            quota: self.quota.clone(),
            pool: Pooled::Taken { made: parked.made },
            made: fresh.made,
            name: fresh.name,
            ..parked.clone()
        };
        record.spec.env = plain(&self.env);
        record.spec.fallback_env = plain(&self.fallback_env);
        record
    }
}

/// A room that was made ahead and is somebody's.
#[derive(Debug)]
pub struct Taken {
    /// What it is.
    pub record: Record,
    /// Whoever has it is connected already, and so waits less for what it asks first.
    pub client: Client,
}

/// Gives a room out that was made ahead, if one waits; `None` if it must be made.
/// `wanted` says what it is to be, once its id is known: a room has the one that it was parked with.
///
/// # Guarantees
/// A room is given out once. One whose taker is killed is either still parked, or a room like any
/// other, under the name that was asked for.
pub async fn take(
    journal: &Journal,
    wanted: impl Fn(&str) -> Record,
    program: &Path,
) -> Result<Option<Taken>, JournalError> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let unnamed = wanted("");
    let Some(shape) = Shape::of(&unnamed, program) else { return Ok(None) };
    let waiting = journal.waiting(shape.key().as_str());
    // Two who want one at once begin at different ones, be it in one process or in two.
    let process = usize::try_from(std::process::id()).unwrap_or(0);
    let turn = TURN.fetch_add(1, Ordering::Relaxed);
    let at = process.wrapping_add(turn) % waiting.len().max(1);
    for id in waiting.iter().cycle().skip(at).take(waiting.len()) {
        let record = wanted(id);
        let order = order(&record, shape.clone());
        let client = Client::new(journal.socket(id));
        match client.hand_out(order).await {
            Ok(()) => return Ok(Some(Taken { record, client })),
            Err(ClientError::Failed(failed)) => not_given(&failed, &record)?,
            // Killed, or somebody else's by now.
            Err(error) => tracing::debug!(id, %error, "a parked room does not answer"),
        }
    }
    Ok(None)
}

/// Why a room was not given out, if the next one would not be, either.
fn not_given(failed: &Failed, record: &Record) -> Result<(), JournalError> {
    match failed.kind.as_str() {
        "taken" => Err(JournalError::Taken(record.name.clone())),
        "name" => Err(JournalError::Name(record.name.clone())),
        "busy" => {
            let why = failed.message.trim_start_matches("busy: ").to_owned();
            Err(JournalError::Busy(Busy { why, retry: RETRY }))
        }
        _ => {
            tracing::debug!(%failed, "a parked room is not to be had");
            Ok(())
        }
    }
}

fn order(record: &Record, shape: Shape) -> HandOut {
    let words = |env: &BTreeMap<OsString, OsString>| {
        env.iter().map(|(name, value)| (Word(name.clone()), Word(value.clone()))).collect()
    };
    HandOut {
        shape,
        name: record.name.clone(),
        labels: record.labels.clone(),
        lifetime: record.lifetime,
        quota: record.quota.clone(),
        env: words(&record.spec.env),
        fallback_env: words(&record.spec.fallback_env),
    }
}

/// The record of a room to be parked for whoever asks for one like `record`, under `slot`: what was
/// asked for, whatever it came to.
pub fn parked(record: &Record, id: String, slot: &str, key: &Key) -> Record {
    let name = id.clone();
    let fresh = Record::new(id, name, record.spec.clone(), record.policy.clone());
    let mut parked = Record {
        backend: record.backend.clone(),
        runtime: record.runtime.clone(),
        pool: Pooled::Parked { slot: slot.to_owned(), key: key.0.clone() },
        ..fresh
    };
    parked.spec.env.clear();
    parked.spec.fallback_env.clear();
    parked
}

/// Parks rooms like `parked`, each under an id that `fresh` makes, until as many wait as are wished
/// for; says how many that were. Where nobody wishes for any, or not any more, there are none.
///
/// # Cancellation
/// Those that were parked are; whoever comes next goes on.
pub async fn fill(
    journal: &Journal,
    (program, admission): (&Path, &Admission),
    parked: &Record,
    fresh: impl Fn() -> io::Result<String>,
) -> Result<u32, LaunchError> {
    let Pooled::Parked { key, .. } = &parked.pool else { return Ok(0) };
    let _alone = journal.refill_lock().map_err(LaunchError::System)?;
    let mut made = 0;
    while let Some(wish) = journal.wish(key)
        && count(journal, key)? < wish.size
    {
        let id = fresh().map_err(LaunchError::System)?;
        let room = Record { name: id.clone(), id, made: now(), ..parked.clone() };
        launch(program, &room, admission).await?;
        made += 1;
    }
    Ok(made)
}

/// Wishes for `size` rooms like `parked` to wait, until the pool is drained.
pub fn wish(journal: &Journal, parked: &Record, size: u32) -> io::Result<()> {
    match &parked.pool {
        Pooled::Parked { slot, key } => {
            journal.wish_for(key, &Wish { slot: slot.clone(), size })
        }
        Pooled::No | Pooled::Taken { .. } => Ok(()),
    }
}

/// How many rooms wait under `key`.
fn count(journal: &Journal, key: &str) -> Result<u32, LaunchError> {
    let parked = journal.parked();
    let parked = parked.map_err(|error| LaunchError::System(io::Error::other(error)))?;
    let fits = |it: &&Listed| match &it.record.pool {
        Pooled::Parked { key: its, .. } => its == key,
        Pooled::No | Pooled::Taken { .. } => false,
    };
    Ok(u32::try_from(parked.iter().filter(fits).count()).unwrap_or(u32::MAX))
}

/// What a process is told that is to park rooms in the place of some that were handed out.
#[derive(Debug, Serialize, Deserialize)]
pub struct RefillWanted {
    /// What those are like.
    pub refill: Box<Record>,
}

/// Has `program` (Bulkhead itself) park rooms like `parked`, if somebody wishes for them, and does not
/// wait for it. What comes of it is nobody's trouble: whoever wants a room and finds none makes one.
pub async fn refill(journal: &Journal, program: &Path, parked: &Record) {
    let Pooled::Parked { key, .. } = &parked.pool else { return };
    if journal.wish(key).is_none() {
        return;
    }
    if let Err(error) = behind(program, parked).await {
        tracing::debug!(%error, "the pool is not filled again");
    }
}

/// Starts who refills the pool, and leaves it alone.
#[expect(
    clippy::disallowed_methods,
    reason = "this is Bulkhead itself, not a program of a user"
)]
async fn behind(program: &Path, parked: &Record) -> io::Result<()> {
    let wanted = RefillWanted { refill: Box::new(parked.clone()) };
    let mut refiller = Command::new(program)
        .arg("shim")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    match refiller.stdin.take() {
        Some(mut stdin) => stdin.write_all(&serde_json::to_vec(&wanted)?).await,
        None => Ok(()),
    }
}

/// Ends the parked rooms of `slot` that were made from something else than `key`: the rules, the
/// program or what is shared are not what they were. Says how many there were.
pub async fn drain_stale(
    journal: &Journal,
    slot: &str,
    key: Option<&Key>,
) -> Result<usize, JournalError> {
    let stale = |it: &Pooled| match it {
        Pooled::Parked { slot: its, key: of } => {
            its == slot && key.is_none_or(|key| key.0 != *of)
        }
        Pooled::No | Pooled::Taken { .. } => false,
    };
    let of_slot =
        |its: &str, wish: &Wish| wish.slot == slot && key.is_none_or(|key| key.0 != its);
    journal.withdraw(of_slot).map_err(unwished)?;
    end(journal, stale).await
}

/// Ends every parked room, and says how many there were. No others come in their place.
pub async fn drain(journal: &Journal) -> Result<usize, JournalError> {
    journal.withdraw(|_, _| true).map_err(unwished)?;
    end(journal, |_| true).await
}

fn unwished(source: io::Error) -> JournalError {
    JournalError::System { action: "take a wish for rooms back", source }
}

/// Ends the parked rooms that `which` means, and says how many there were.
async fn end(
    journal: &Journal,
    which: impl Fn(&Pooled) -> bool,
) -> Result<usize, JournalError> {
    let mut ended = 0;
    for listed in journal.parked()? {
        if !which(&listed.record.pool) {
            continue;
        }
        let client = Client::new(journal.socket(&listed.record.id));
        // One that was just given out is nobody's to end; one that does not answer is gone.
        if client.retire().await.is_ok() {
            ended += 1;
        }
    }
    Ok(ended)
}
