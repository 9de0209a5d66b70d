//! Agents that are known by name: `bulkhead run claude`.
//!
//! What an agent needs is data: a profile each, built in or in a file of the user's. A profile only
//! asks, as flags do; rules, ceilings and walls judge it as they judge those.
//!
//! Invariant: of what the caller's own agent keeps, nothing is shared but what its profile names,
//! read-only, and no file that looks as if it held a credential.

mod profile;
mod state;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use bulkhead_spec::{HostPattern, Network, SecretBinding, SecretSource, escape};

pub(crate) use self::profile::Profile;
use crate::{
    args::run::{Ask, Typed},
    codes::Code,
    config::{Environment, Layer, MACHINE_FILE, Origin, Paths, Said, Sourced, shown},
    failure::Failure,
};

/// An agent that somebody asked for by its name.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// The name that was typed.
    pub(crate) name: String,
    /// What it needs.
    pub(crate) profile: Profile,
    /// The file that says so; none for what is built in.
    file: Option<PathBuf>,
}

impl Agent {
    /// The agent that `ask` names: a bare first word, not behind `--` and not a path.
    pub(crate) fn of(ask: &Ask, paths: &Paths) -> Result<Option<Self>, Failure> {
        let (Typed::Bare, Some(name)) = (ask.typed, ask.program.first()) else {
            return Ok(None);
        };
        let Some(name) = name.to_str().filter(|it| is_name(it)) else { return Ok(None) };
        let user = paths.user_file.as_deref().and_then(Path::parent);
        let machine = Path::new(MACHINE_FILE).parent();
        for dir in [user, machine].into_iter().flatten() {
            let file = dir.join("agents").join(format!("{name}.toml"));
            if let Some(text) = read(&file)? {
                let profile = Profile::parse(&text).map_err(|why| wrong(&file, &why))?;
                return Ok(Some(Self { name: name.to_owned(), profile, file: Some(file) }));
            }
        }
        let Some(profile) = Profile::built_in(name) else { return Ok(None) };
        let profile = profile.map_err(|why| wrong(Path::new(name), &why))?;
        Ok(Some(Self { name: name.to_owned(), profile, file: None }))
    }

    /// What it asks for, below everything that somebody has configured.
    pub(crate) fn layer(&self, environment: &Environment) -> Result<Layer, Failure> {
        let origin = Origin::Agent(self.name.clone());
        let mut layer = Layer { network: Some(Network::Proxy), ..Layer::default() };
        layer.origins.insert("network", origin.clone());
        let address = self.address(environment)?;
        let moved = address.as_ref().map(Address::rule);
        for text in self.profile.allow.iter().chain(&moved) {
            let said = Said::allowed(text, &origin);
            layer.way_out.allow.push(said.map_err(|error| self.unusable(&error.to_string()))?);
        }
        for mut value in self.secrets(environment) {
            if let Some(address) = &address {
                // A key for another place is for nobody else.
                value.hosts = vec![address.host.clone()];
            }
            layer.way_out.secrets.push(Sourced { value, origin: origin.clone() });
        }
        Ok(layer)
    }

    /// Those of its secrets that the caller has, each name once.
    fn secrets(&self, environment: &Environment) -> Vec<SecretBinding> {
        let mut found: Vec<SecretBinding> = Vec::new();
        for binding in &self.profile.secrets {
            let has = match &binding.source {
                SecretSource::Variable(name) => environment.get(name).is_some(),
                SecretSource::File(_) | SecretSource::Command(_) => true,
            };
            if has && found.iter().all(|it| it.name != binding.name) {
                found.push(binding.clone());
            }
        }
        found
    }

    /// The variables that it starts with; `home` is its home inside.
    pub(crate) fn env(
        &self,
        environment: &Environment,
        home: &Path,
    ) -> BTreeMap<OsString, OsString> {
        let passed = self.profile.pass.iter().chain(&self.profile.address);
        let passed =
            passed.filter_map(|name| Some((name.into(), environment.get(name)?.into())));
        let own = self.profile.env.iter().map(|(name, value)| {
            let below = value.strip_prefix("~/").map(|rest| home.join(rest).into_os_string());
            (name.into(), below.unwrap_or_else(|| value.into()))
        });
        own.chain(passed).collect()
    }

    /// What is run for what was typed.
    pub(crate) fn argv(&self, typed: &[OsString]) -> Vec<OsString> {
        let rest = typed.get(1..).unwrap_or_default();
        let decided = |word: &OsString| {
            let word = word.to_string_lossy();
            let flag = word.split('=').next().unwrap_or_default();
            self.profile.unless.iter().chain(&self.profile.flags).any(|it| it == flag)
        };
        let flags: &[String] = if rest.iter().any(decided) { &[] } else { &self.profile.flags };
        let program = OsString::from(&self.profile.program);
        let flags = flags.iter().map(OsString::from);
        [program].into_iter().chain(flags).chain(rest.iter().cloned()).collect()
    }

    /// What its user should know before it runs with `network`.
    pub(crate) fn warnings(&self, environment: &Environment, network: Network) -> Vec<String> {
        let (name, says) = (&self.name, &self.profile.says);
        let without = match network {
            Network::None => Some(format!("without a network {says} cannot reach its model")),
            Network::Open => Some(format!(
                "with an open network nobody keeps the keys of {says}, so it gets none; \
                 -e NAME copies one inside"
            )),
            Network::Proxy | Network::Observe => None,
        };
        let keyless = || {
            let missing =
                self.secrets(environment).is_empty() && !self.profile.secrets.is_empty();
            let sign_in = self.profile.sign_in.as_ref().filter(|_| missing)?;
            Some(format!("no key for {name} is set here: {sign_in}"))
        };
        without.or_else(keyless).into_iter().collect()
    }

    /// What to type where its program is not there.
    pub(crate) fn absent(&self) -> Option<String> {
        let install = self.profile.install.as_ref()?;
        Some(format!("if {} is not installed, type: {install}", self.profile.says))
    }

    /// One line for a plan.
    pub(crate) fn summary(&self) -> String {
        let origin = match &self.file {
            Some(file) => shown(file),
            None => "built-in".to_owned(),
        };
        format!("{}: {} ({origin})", self.name, escape(&self.profile.says))
    }

    /// Where its model is, if the caller says that it is elsewhere.
    fn address(&self, environment: &Environment) -> Result<Option<Address>, Failure> {
        let Some(name) = &self.profile.address else { return Ok(None) };
        let Some(value) = environment.get(name) else { return Ok(None) };
        let address = value.to_str().and_then(Address::parse);
        address.map(Some).ok_or_else(|| {
            let what = format!("{name} is not where a key can be sent to");
            Failure::new(Code::BadValue, what)
                .because("it must begin with https:// and name a host")
                .hint(format!(
                    "unset {name}, or start the program itself: bulkhead run -- {}",
                    self.name
                ))
        })
    }

    fn unusable(&self, why: &str) -> Failure {
        let file = self.file.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        wrong(&file, why)
    }
}

/// Where a model is.
struct Address {
    host: HostPattern,
    port: u16,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let authority = text.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, 443),
        };
        if host.contains('*') {
            return None;
        }
        Some(Self { host: host.parse().ok()?, port })
    }

    fn rule(&self) -> String {
        format!("https://{}:{}", self.host, self.port)
    }
}

/// A name that can be a file's and leads nowhere else.
fn is_name(text: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    !text.is_empty() && text.chars().all(plain)
}

fn read(file: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(wrong(file, &error.to_string())),
    }
}

fn wrong(file: &Path, why: &str) -> Failure {
    let what = format!("cannot use the agent's profile in `{}`", shown(file));
    Failure::new(Code::ConfigFile, what).because(why)
}

/// Whether `text` looks as if a credential were in it.
fn looks_secret(text: &str) -> bool {
    const WORDS: [&str; 8] =
        ["token", "secret", "password", "credential", "apikey", "api_key", "api-key", "sk-"];
    let lower = text.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// Whether something of this name is there and is what it is called.
fn is_plain(path: &Path, name: &OsStr) -> bool {
    path.join(name).symlink_metadata().is_ok_and(|it| it.is_file() || it.is_dir())
}

#[cfg(test)]
mod tests;
