//! Which secret is for which hosts.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{HostPattern, InvalidHost};
use crate::escape;

/// `NAME[=SOURCE]@HOST[,HOST…][#HEADER[: WORD]]`: a variable that holds a placeholder inside, and
/// whose value the gateway puts in for those hosts only. With a header there is no variable: the
/// gateway sets that header of every request to them, and nobody inside needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretBinding {
    /// The variable, inside.
    pub name: String,
    /// Where the value comes from, on the host.
    pub source: SecretSource,
    /// Where it may go.
    pub hosts: Vec<HostPattern>,
    /// The header that the gateway sets by itself.
    pub header: Option<SetHeader>,
}

/// A header that the gateway sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetHeader {
    /// Its name.
    pub name: String,
    /// What stands before the value, such as `Bearer`.
    pub word: Option<String>,
}

/// Where the value of a secret comes from. The value itself is never written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the host.
    Variable(String),
    /// `file:PATH`; a final newline is not part of it.
    File(PathBuf),
    /// `command:LINE`: what a shell command of the host prints; a final newline is not part of it.
    Command(String),
}

/// Why a text binds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBinding {
    /// There is no host.
    #[error("`{}` does not say where the secret may go: write `NAME@host`", escape(.0))]
    Unbound(String),
    /// The name is no name of a variable.
    #[error("`{}` is not the name of a variable", escape(.0))]
    Name(String),
    /// The source is unknown. What it is might be the value, so it is not repeated.
    #[error(
        "the value of `{0}` must not be written out: say `{0}@host`, `{0}=env:NAME@host`, `{0}=file:PATH@host` or `{0}=command:LINE@host`"
    )]
    Source(String),
    /// A header that is none.
    #[error("`{}` is not a header: write `Name`, or `Name: Bearer`", escape(.0))]
    Header(String),
    /// A host that is none.
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// A pattern that hands the secret to anybody.
    #[error("`{0}` would hand the secret to anybody: it is a public suffix")]
    PublicSuffix(String),
}

impl FromStr for SecretBinding {
    type Err = InvalidBinding;

    fn from_str(text: &str) -> Result<Self, InvalidBinding> {
        // The last one: a command may have its own, a host has none.
        let Some((left, hosts)) = text.rsplit_once('@') else {
            // What stands before an `=` is a name; what follows might be a value.
            let name = text.split('=').next().unwrap_or_default();
            return Err(InvalidBinding::Unbound(name.to_owned()));
        };
        let (name, source) = match left.split_once('=') {
            Some((name, source)) => (name, Some(source)),
            None => (left, None),
        };
        if !is_variable(name) {
            return Err(InvalidBinding::Name(name.to_owned()));
        }
        let source = match source {
            None => SecretSource::Variable(name.to_owned()),
            Some(source) => {
                parse_source(source).ok_or_else(|| InvalidBinding::Source(name.to_owned()))?
            }
        };
        let (hosts, header) = match hosts.split_once('#') {
            Some((hosts, header)) => (hosts, Some(parse_header(header)?)),
            None => (hosts, None),
        };
        let hosts =
            hosts.split(',').map(|it| parse_host(it.trim())).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), source, hosts, header })
    }
}

fn is_variable(name: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|it| !it.is_ascii_digit())
}

fn parse_source(text: &str) -> Option<SecretSource> {
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "env" if is_variable(rest) => Some(SecretSource::Variable(rest.to_owned())),
        "file" if !rest.is_empty() => Some(SecretSource::File(PathBuf::from(rest))),
        "command" if !rest.is_empty() => Some(SecretSource::Command(rest.to_owned())),
        _ => None,
    }
}

fn parse_header(text: &str) -> Result<SetHeader, InvalidBinding> {
    let (name, word) = match text.split_once(':') {
        Some((name, word)) => (name, Some(word.trim())),
        None => (text, None),
    };
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
    let named = !name.is_empty() && name.bytes().all(plain);
    // Those that say where a request ends, or to whom it goes, are not for anybody to set.
    let own = ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te"];
    let own = own.iter().any(|it| it.eq_ignore_ascii_case(name));
    if !named || own || !word.is_none_or(|it| !it.is_empty() && it.bytes().all(plain)) {
        return Err(InvalidBinding::Header(text.to_owned()));
    }
    Ok(SetHeader { name: name.to_owned(), word: word.map(str::to_owned) })
}

fn parse_host(text: &str) -> Result<HostPattern, InvalidBinding> {
    let pattern: HostPattern = text.parse()?;
    match pattern.public_suffix() {
        Some(_) => Err(InvalidBinding::PublicSuffix(text.to_owned())),
        None => Ok(pattern),
    }
}

impl fmt::Display for SecretBinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        match &self.source {
            SecretSource::Variable(name) if *name == self.name => {}
            SecretSource::Variable(name) => write!(out, "=env:{name}")?,
            SecretSource::File(path) => write!(out, "=file:{}", path.display())?,
            SecretSource::Command(line) => write!(out, "=command:{line}")?,
        }
        for (at, host) in self.hosts.iter().enumerate() {
            write!(out, "{}{host}", if at == 0 { '@' } else { ',' })?;
        }
        match &self.header {
            Some(SetHeader { name, word: Some(word) }) => write!(out, "#{name}: {word}"),
            Some(SetHeader { name, word: None }) => write!(out, "#{name}"),
            None => Ok(()),
        }
    }
}

impl Serialize for SecretBinding {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretBinding {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
