//! The name of a host, in the one spelling that is compared.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use serde::{Serialize, Serializer};

use crate::escape;

/// A host as a program names it: a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name of the domain name system.
    Name(HostName),
    /// An address, written in the usual form; an IPv4 address in IPv6 clothes is an IPv4 address.
    Address(IpAddr),
}

/// A name in its canonical spelling: lower case, A-labels, no final dot.
///
/// A name whose last label is a number is not one: resolvers take `127.1` and `0x7f000001` for
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

/// Why a text names no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    /// There is nothing.
    #[error("a host is missing")]
    Empty,
    /// A character that no host has.
    #[error("`{}` has a character that no host name has", escape(.0))]
    Character(String),
    /// Not ASCII; two spellings of one name would compare as different.
    #[error("`{}` is not ASCII: write the name in its `xn--` form", escape(.0))]
    NotAscii(String),
    /// Too long, as a whole or in one label; or a label is empty.
    #[error("`{}` is not a host name: labels have 1 to 63 characters, all of it at most 253", escape(.0))]
    Length(String),
    /// A label that begins or ends with a hyphen.
    #[error("`{}` has a label that begins or ends with a hyphen", escape(.0))]
    Hyphen(String),
    /// A number that some resolvers take for an address.
    #[error("`{}` is an address in an unusual form: write it as four decimal numbers", escape(.0))]
    Number(String),
}

impl HostName {
    /// The name of the host's own loopback, as seen from inside.
    pub const OF_THE_HOST: &str = "host.bulkhead.internal";

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its labels, from the most general to the most special.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.rsplit('.')
    }

    /// Whether it means the host that the sandbox runs on.
    pub fn is_the_host(&self) -> bool {
        &*self.0 == Self::OF_THE_HOST
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let said = || text.to_owned();
        if text.is_empty() {
            return Err(InvalidHost::Empty);
        }
        if !text.is_ascii() {
            return Err(InvalidHost::NotAscii(said()));
        }
        let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
        if !text.bytes().all(plain) {
            return Err(InvalidHost::Character(said()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.len() > 253 || name.split('.').any(|it| it.is_empty() || it.len() > 63) {
            return Err(InvalidHost::Length(said()));
        }
        if name.split('.').any(|it| it.starts_with('-') || it.ends_with('-')) {
            return Err(InvalidHost::Hyphen(said()));
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(InvalidHost::Number(said()));
        }
        Ok(Self(name.to_ascii_lowercase().into()))
    }
}

/// Whether some resolver would read a name that ends in this label as an address.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|it| it.is_ascii_hexdigit()),
        None => label.bytes().all(|it| it.is_ascii_digit()),
    }
}

impl FromStr for Host {
    type Err = InvalidHost;

    /// A name, or an address; an IPv6 address may be in brackets.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        if let Some(inner) = inner {
            let address: Ipv6Addr =
                inner.parse().map_err(|_| InvalidHost::Character(text.to_owned()))?;
            return Ok(Self::from(IpAddr::V6(address)));
        }
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self::from(address)),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        Self::Name(name)
    }
}

impl Host {
    /// The name, if it is one.
    pub fn name(&self) -> Option<&HostName> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::Address(IpAddr::V4(address)) => address.fmt(out),
            Self::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
        }
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
