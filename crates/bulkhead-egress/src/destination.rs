//! Where somebody inside wants to go.

use std::fmt;

use bulkhead_spec::Host;

/// A host and a port, in the one spelling that is judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    /// Which host.
    pub(crate) host: Host,
    /// Which port.
    pub(crate) port: u16,
}

impl Destination {
    /// Reads `host:port`, with the port required unless there is a usual one.
    pub(crate) fn from_authority(text: &str, usual: Option<u16>) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an address in brackets are its own.
            Some((_, port)) if port.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = match port {
            Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
            None => usual?,
        };
        // An IPv6 address without brackets leaves open where its port begins.
        if port == 0 || (host.contains(':') && !host.starts_with('[')) {
            return None;
        }
        Some(Self { host: host.parse().ok()?, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}
