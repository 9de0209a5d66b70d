//! One rule about the way out.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Host, HostPattern, InvalidHost, InvalidPathPattern, PathPattern};
use crate::escape;

/// `[METHOD[,METHOD] ][SCHEME://]HOST[:PORT][/PATH]`, or a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// Which hosts.
    pub target: Target,
    /// Which of their ports.
    pub ports: Ports,
    /// What may be said there.
    pub wire: Wire,
    /// Which methods of HTTP; none means all.
    pub methods: BTreeSet<String>,
    /// Which paths; `None` means all.
    pub path: Option<PathPattern>,
}

/// The hosts of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Names.
    Names(HostPattern),
    /// Addresses; a literal is a range of one.
    Addresses(IpNet),
}

/// The ports of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ports {
    /// 443 and 80.
    Web,
    /// This one.
    One(u16),
}

/// What may be said to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wire {
    /// TLS on port 443, HTTP on port 80, anything elsewhere.
    Usual,
    /// `https://`: TLS, whatever the port.
    Tls,
    /// `http://`: HTTP, whatever the port.
    Http,
    /// `tcp://`: any bytes, whatever the port.
    Raw,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// Its host.
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// Its path.
    #[error(transparent)]
    Path(#[from] InvalidPathPattern),
    /// Its port.
    #[error("`{}` is not a port: write a number from 1 to 65535", escape(.0))]
    Port(String),
    /// Its scheme.
    #[error("`{}` is not a scheme: write `https`, `http` or `tcp`", escape(.0))]
    Scheme(String),
    /// Its methods.
    #[error("`{}` is not a method of HTTP: write `GET`, or several with commas", escape(.0))]
    Method(String),
    /// Its range of addresses.
    #[error("`{}` is not a range of addresses: write `10.1.0.0/16`", escape(.0))]
    Range(String),
    /// Everything.
    #[error("`{}` would allow every host: say `--preset open` if that is meant", escape(.0))]
    Everything(String),
    /// Names that belong to different people.
    #[error("`{}` would allow hosts of anybody: `{suffix}` is a public suffix", escape(.rule))]
    PublicSuffix {
        /// The rule.
        rule: String,
        /// The suffix under which anybody can have a name.
        suffix: String,
    },
    /// A method or a path of something that is not HTTP.
    #[error("`{}` names a method or a path: those need `https://` or `http://`", escape(.0))]
    NotHttp(String),
    /// A single word that is no group.
    #[error("`{}` is neither a host nor a group; groups are {known}", escape(.word))]
    Word {
        /// The word.
        word: String,
        /// All groups.
        known: String,
    },
}

impl Rule {
    /// Whether it speaks of single requests, which only somebody who reads them can judge.
    pub fn is_about_requests(&self) -> bool {
        self.path.is_some() || !self.methods.is_empty()
    }

    /// Refuses a rule that would allow more than anybody can mean.
    pub fn check_width(&self) -> Result<(), InvalidRule> {
        let Target::Names(pattern) = &self.target else { return Ok(()) };
        match pattern.public_suffix() {
            None if *pattern == HostPattern::Any => {
                Err(InvalidRule::Everything(self.to_string()))
            }
            None => Ok(()),
            Some(suffix) => Err(InvalidRule::PublicSuffix {
                rule: self.to_string(),
                suffix: suffix.to_owned(),
            }),
        }
    }

    /// Whether it speaks of `host`, on whatever port.
    pub fn means(&self, host: &Host) -> bool {
        match (&self.target, host) {
            (Target::Names(pattern), Host::Name(name)) => pattern.matches(name),
            (Target::Addresses(range), Host::Address(address)) => range.contains(address),
            (Target::Names(_), Host::Address(_)) | (Target::Addresses(_), Host::Name(_)) => {
                false
            }
        }
    }
}

impl Ports {
    /// Whether `port` is among them.
    pub fn contains(self, port: u16) -> bool {
        match self {
            Self::Web => port == 443 || port == 80,
            Self::One(one) => one == port,
        }
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        let (one, other) = match self {
            Self::Web => (443, Some(80)),
            Self::One(one) => (one, None),
        };
        std::iter::once(one).chain(other)
    }
}

impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let text = text.trim();
        let (methods, rest) = match text.split_once(' ') {
            Some((methods, rest)) => (parse_methods(methods)?, rest.trim()),
            None => (BTreeSet::new(), text),
        };
        let (wire, rest) = match rest.split_once("://") {
            Some((scheme, rest)) => (parse_scheme(scheme)?, rest),
            None => (Wire::Usual, rest),
        };
        let (authority, path) = split_path(rest, wire);
        let path = path.map(str::parse).transpose()?;
        let (target, port) = parse_authority(authority)?;
        let ports = match (port, wire) {
            (Some(port), _) => Ports::One(port),
            (None, Wire::Tls) => Ports::One(443),
            (None, Wire::Http) => Ports::One(80),
            (None, Wire::Usual | Wire::Raw) => Ports::Web,
        };
        let rule = Self { target, ports, wire, methods, path };
        let http = matches!(rule.wire, Wire::Tls | Wire::Http);
        if rule.is_about_requests() && !http {
            return Err(InvalidRule::NotHttp(text.to_owned()));
        }
        Ok(rule)
    }
}

fn parse_methods(text: &str) -> Result<BTreeSet<String>, InvalidRule> {
    let method = |it: &str| {
        let fine =
            !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphabetic() || it == b'-');
        fine.then(|| it.to_ascii_uppercase()).ok_or_else(|| InvalidRule::Method(it.to_owned()))
    };
    text.split(',').map(method).collect()
}

fn parse_scheme(text: &str) -> Result<Wire, InvalidRule> {
    match text {
        "https" => Ok(Wire::Tls),
        "http" => Ok(Wire::Http),
        "tcp" => Ok(Wire::Raw),
        other => Err(InvalidRule::Scheme(other.to_owned())),
    }
}

/// Where the path begins, if there is one. The slash of a range of addresses is no path.
fn split_path(text: &str, wire: Wire) -> (&str, Option<&str>) {
    if wire == Wire::Usual && is_range(text) {
        return (text, None);
    }
    match text.find('/') {
        // A lone slash is what a pasted URL ends with.
        Some(at) if text.len() == at + 1 => (text.trim_end_matches('/'), None),
        Some(at) => {
            text.split_at_checked(at).map_or((text, None), |(host, path)| (host, Some(path)))
        }
        None => (text, None),
    }
}

fn is_range(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or_default().trim_start_matches('[');
    address.parse::<IpAddr>().is_ok()
}

fn parse_authority(text: &str) -> Result<(Target, Option<u16>), InvalidRule> {
    // An IPv6 address has colons of its own; with a port it is in brackets.
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
            None => return Err(InvalidRule::Range(text.to_owned())),
        },
        None if text.matches(':').count() > 1 => (text, None),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(parse_port).transpose()?;
    if host.contains('/') || host.contains(':') {
        let range = match host.parse::<IpNet>() {
            Ok(range) if range.trunc() == range => Some(range),
            Ok(_) => None,
            Err(_) => host.parse::<IpAddr>().ok().map(|it| IpNet::from(it.to_canonical())),
        };
        let range = range.ok_or_else(|| InvalidRule::Range(host.to_owned()))?;
        return Ok((Target::Addresses(range), port));
    }
    if host.starts_with('*') {
        return Ok((Target::Names(host.parse()?), port));
    }
    Ok(match host.parse()? {
        Host::Name(name) => (Target::Names(HostPattern::Exact(name)), port),
        Host::Address(address) => (Target::Addresses(IpNet::from(address)), port),
    })
}

fn parse_port(text: &str) -> Result<u16, InvalidRule> {
    let digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let port = digits.then(|| text.parse().ok()).flatten().filter(|it| *it != 0);
    port.ok_or_else(|| InvalidRule::Port(text.to_owned()))
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, ports, wire, methods, path } = self;
        for (at, method) in methods.iter().enumerate() {
            write!(out, "{}{method}", if at == 0 { "" } else { "," })?;
        }
        if !methods.is_empty() {
            out.write_str(" ")?;
        }
        let (scheme, implied) = match wire {
            Wire::Usual => ("", None),
            Wire::Raw => ("tcp://", None),
            Wire::Tls => ("https://", Some(443)),
            Wire::Http => ("http://", Some(80)),
        };
        out.write_str(scheme)?;
        let port = match ports {
            Ports::One(port) if Some(*port) != implied => Some(*port),
            Ports::One(_) | Ports::Web => None,
        };
        match (target, port) {
            (Target::Addresses(range), Some(_)) if range.addr().is_ipv6() => {
                write!(out, "[{}]", Range(range))?;
            }
            (Target::Addresses(range), _) => write!(out, "{}", Range(range))?,
            (Target::Names(pattern), _) => pattern.fmt(out)?,
        }
        if let Some(port) = port {
            write!(out, ":{port}")?;
        }
        path.iter().try_for_each(|path| path.fmt(out))
    }
}

/// A range, or the one address that it has.
struct Range<'a>(&'a IpNet);

impl fmt::Display for Range<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            self.0.addr().fmt(out)
        } else {
            self.0.fmt(out)
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
