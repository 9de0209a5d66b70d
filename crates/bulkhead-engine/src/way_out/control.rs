//! The socket by which the rules of a running sandbox are looked at and changed.
//!
//! It lies in the runtime directory of the user who started the sandbox, for that user alone; a
//! sandbox sees neither the directory nor the socket. One question a connection, one line each way.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use bulkhead_egress::Gateway;
use bulkhead_policy::{EgressRules, Verdict};
use bulkhead_spec::{EgressUsage, Host, Sourced};
use serde::{Deserialize, Serialize};

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
        /// What it allows now.
        allow: Vec<Sourced>,
        /// What it denies now.
        deny: Vec<Sourced>,
    },
    /// Whether a host may be reached.
    Check {
        /// Which.
        host: String,
        /// On which port.
        port: u16,
    },
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
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// The socket of one sandbox; removed when it is dropped.
pub(super) struct Control {
    path: PathBuf,
}

impl Control {
    /// Makes the socket and answers on it for as long as the gateway lives.
    pub(super) fn open(dir: &Path, id: &str, gateway: &Arc<Gateway>) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = socket_of(dir, id);
        // What a killed run of that name left; one that lives has another name.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&path)?;
        let control = Self { path };
        fs::set_permissions(&control.path, fs::Permissions::from_mode(0o600))?;
        let gateway = Arc::downgrade(gateway);
        thread::Builder::new()
            .name("bulkhead-rules".to_owned())
            .spawn(move || serve(&listener, &gateway))?;
        Ok(control)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Whoever serves it wakes up and finds the gateway gone. What is not there to be removed or
        // woken is as it should be.
        drop(UnixStream::connect(&self.path));
        fs::remove_file(&self.path).unwrap_or_default();
    }
}

fn serve(listener: &UnixListener, gateway: &Weak<Gateway>) {
    for stream in listener.incoming() {
        let Some(gateway) = gateway.upgrade() else { return };
        let answered = stream.and_then(|stream| answer(stream, &gateway));
        if let Err(error) = answered {
            tracing::debug!(%error, "somebody who asked for rules went away");
        }
    }
}

fn answer(mut stream: UnixStream, gateway: &Gateway) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(io::Read::take(&stream, MOST)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let reply = match serde_json::from_str(&line) {
        Ok(ask) => perform(ask, gateway),
        Err(error) => Reply::Refused { why: error.to_string() },
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    stream.write_all(&line)
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
        Ask::Replace { origin, allow, deny } => {
            let all: Vec<_> = rules.allowed().iter().chain(rules.denied()).cloned().collect();
            let said = all.iter().filter(|it| it.origin == origin);
            let rules = said.fold(rules, |rules, it| rules.without(&it.rule, &origin));
            let rules = allow.into_iter().fold(rules, EgressRules::allowing);
            changed(deny.into_iter().fold(rules, EgressRules::denying))
        }
        Ask::Check { host, port } => match host.parse::<Host>() {
            Ok(host) => verdict(rules.judge(&host, port)),
            Err(error) => Reply::Refused { why: error.to_string() },
        },
    }
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
