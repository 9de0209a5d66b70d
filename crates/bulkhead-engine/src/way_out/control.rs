//! The socket by which the rules of a running sandbox are looked at and changed.
//!
//! It lies in the runtime directory of the user who started the sandbox, for that user alone; a
//! sandbox sees neither the directory nor the socket. One question a connection, one line each way.

use std::{
    fs,
    io::{self, BufRead as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use bulkhead_egress::{BoundSecret, Gateway};
use bulkhead_policy::{EgressRules, Verdict};
use bulkhead_spec::{EgressUsage, Host, Secret, SecretBinding, SecretSource, Sourced};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    task::AbortHandle,
    time::timeout,
};

/// The longest question.
const MOST: u64 = 64 * 1024;
/// Somebody who has connected has this long to ask.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can be asked of a running sandbox.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Which rules hold.
    Rules,
    /// Allow more. What the machine's owner forbids stays forbidden.
    Allow {
        /// What.
        rules: Vec<Sourced>,
    },
    /// Deny more.
    Deny {
        /// What.
        rules: Vec<Sourced>,
    },
    /// Take back what was said about these, whoever said it.
    Remove {
        /// What.
        rules: Vec<Sourced>,
    },
    /// Take back all that `origin` said, and let it say this instead.
    Replace {
        /// Who.
        origin: String,
        /// What others allow, and is taken back with it.
        #[serde(default)]
        also: Vec<Sourced>,
        /// What it allows now.
        allow: Vec<Sourced>,
        /// What it denies now.
        deny: Vec<Sourced>,
        /// Headers that are set from now on, their values in files; none to leave them as they are.
        #[serde(default)]
        headers: Option<Headers>,
    },
    /// Whether a host may be reached.
    Check {
        /// Which.
        host: String,
        /// On which port.
        port: u16,
    },
}

/// Headers that are to be set.
#[derive(Debug, Serialize, Deserialize)]
pub struct Headers {
    /// How the names of those begin that they take the place of.
    pub prefix: String,
    /// All of them.
    pub set: Vec<SecretBinding>,
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// The rules that hold.
    Rules {
        /// Those that allow.
        allow: Vec<Sourced>,
        /// Those that deny.
        deny: Vec<Sourced>,
        /// What has passed, as JSON.
        usage: serde_json::Value,
    },
    /// Whether a host may be reached, and why.
    Verdict {
        /// Whether.
        allowed: bool,
        /// Why, in a sentence.
        why: String,
    },
    /// It was not understood.
    Refused {
        /// Why.
        why: String,
    },
}

/// Where the socket of the sandbox `id` is, below `dir`.
pub fn socket_of(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.sock"))
}

/// Asks the sandbox whose socket is at `path`.
pub fn ask(path: &Path, ask: &Ask) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    io::BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// The socket of one sandbox; removed when it is dropped.
pub(super) struct Control {
    path: PathBuf,
    serving: AbortHandle,
}

impl Control {
    /// Makes the socket and answers on it for as long as the gateway lives, on its thread.
    pub(super) fn open(dir: &Path, id: &str, gateway: &Arc<Gateway>) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = socket_of(dir, id);
        // What a killed run of that name left; one that lives has another name.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let serving = gateway.attend(serve(listener, Arc::downgrade(gateway)));
        let control = Self { path, serving };
        fs::set_permissions(&control.path, fs::Permissions::from_mode(0o600))?;
        Ok(control)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.serving.abort();
        // What is not there to be removed is as it should be.
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

async fn serve(listener: UnixListener, gateway: Weak<Gateway>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        let Some(gateway) = gateway.upgrade() else { return };
        // One at a time; somebody who does not ask holds up the next for this long and no longer.
        let answered = timeout(PATIENCE, answer(stream, &gateway)).await;
        if !matches!(answered, Ok(Ok(()))) {
            tracing::debug!("somebody who asked for rules went away");
        }
    }
}

async fn answer(stream: tokio::net::UnixStream, gateway: &Gateway) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut line = String::new();
    BufReader::new(from.take(MOST)).read_line(&mut line).await?;
    if line.is_empty() {
        return Ok(());
    }
    let reply = match serde_json::from_str(&line) {
        Ok(ask) => perform(ask, gateway),
        Err(error) => Reply::Refused { why: error.to_string() },
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    to.write_all(&line).await
}

fn perform(ask: Ask, gateway: &Gateway) -> Reply {
    let changed = |rules: EgressRules| {
        gateway.replace_rules(rules);
        listed(gateway)
    };
    let rules = EgressRules::clone(&gateway.rules());
    match ask {
        Ask::Rules => listed(gateway),
        Ask::Allow { rules: more } => {
            changed(more.into_iter().fold(rules, EgressRules::allowing))
        }
        Ask::Deny { rules: more } => {
            changed(more.into_iter().fold(rules, EgressRules::denying))
        }
        Ask::Remove { rules: named } => changed(without(rules, &named)),
        Ask::Replace { origin, also, allow, deny, headers } => {
            if let Some(Err(why)) = headers.map(|it| set(it, gateway)) {
                return Reply::Refused { why };
            }
            let all: Vec<_> = rules.allowed().iter().chain(rules.denied()).cloned().collect();
            let said = all.iter().filter(|it| it.origin == origin).chain(&also);
            let rules = said.fold(rules, |rules, it| rules.without(&it.rule, &it.origin));
            let rules = allow.into_iter().fold(rules, EgressRules::allowing);
            changed(deny.into_iter().fold(rules, EgressRules::denying))
        }
        Ask::Check { host, port } => match host.parse::<Host>() {
            Ok(host) => verdict(rules.judge(&host, port)),
            Err(error) => Reply::Refused { why: error.to_string() },
        },
    }
}

/// Has the gateway set these headers.
fn set(Headers { prefix, set }: Headers, gateway: &Gateway) -> Result<(), String> {
    let bound = |SecretBinding { name, source, hosts, header }: SecretBinding| {
        let SecretSource::File(path) = source else {
            return Err(format!("the value of `{name}` is in no file"));
        };
        let value = fs::read_to_string(path).map_err(|error| format!("`{name}`: {error}"))?;
        Ok(BoundSecret { name, value: Secret::new(value), hosts, header })
    };
    let all: Result<Vec<_>, String> = set.into_iter().map(bound).collect();
    gateway.set_headers(&prefix, all?).map_err(|error| error.to_string())
}

/// `rules` without everything that was said about those `named`.
fn without(rules: EgressRules, named: &[Sourced]) -> EgressRules {
    let all: Vec<Sourced> = rules.allowed().iter().chain(rules.denied()).cloned().collect();
    let meant = |it: &&Sourced| named.iter().any(|named| named.rule == it.rule);
    all.iter().filter(meant).fold(rules, |rules, it| rules.without(&it.rule, &it.origin))
}

fn listed(gateway: &Gateway) -> Reply {
    let rules = gateway.rules();
    let usage: EgressUsage = gateway.usage();
    Reply::Rules {
        allow: rules.allowed().to_vec(),
        deny: rules.denied().to_vec(),
        usage: serde_json::to_value(usage).unwrap_or_default(),
    }
}

fn verdict(verdict: Verdict) -> Reply {
    match verdict {
        Verdict::Allowed(allowance) => {
            let Sourced { rule, origin } = allowance.by;
            Reply::Verdict { allowed: true, why: format!("allowed by `{rule}` ({origin})") }
        }
        Verdict::Denied(refusal) => {
            Reply::Verdict { allowed: false, why: refusal.reason.to_string() }
        }
    }
}
