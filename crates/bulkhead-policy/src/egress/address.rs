//! What an address is, before anybody talks to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bulkhead_spec::HostName;
use ipnet::IpNet;

/// What an address is to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressClass {
    /// Anybody's.
    Public,
    /// A private network's; reached only where a rule lists the address.
    Private,
    /// Nothing that a rule can open: loopback, link-local, metadata services, what is no
    /// destination at all.
    Forbidden,
}

impl AddressClass {
    /// What `address` is, whatever clothes it wears.
    ///
    /// An IPv4 address that is carried in an IPv6 address (NAT64, 6to4, Teredo) is never better
    /// than private: whoever translates it is on this network.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match carried_by(address) {
                Some(inner) => of_v4(inner).max(Self::Private),
                None => of_v6(address),
            },
        }
    }
}

/// Metadata services outside the link-local range: Azure, Alibaba, Oracle.
const METADATA: [Ipv4Addr; 3] = [
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The metadata service of EC2.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, ..] = address.octets();
    let forbidden = a == 0
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || a >= 240
        // The range of our own synthetic answers.
        || (a == 198 && (b & 0xfe) == 18)
        || METADATA.contains(&address);
    let shared = a == 100 && (b & 0xc0) == 64;
    let protocol = address.octets().starts_with(&[192, 0, 0]);
    if forbidden {
        AddressClass::Forbidden
    } else if address.is_private() || shared || protocol {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    let [first, ..] = address.segments();
    let forbidden = address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || (first & 0xffc0) == 0xfe80
        || address == METADATA_V6;
    if forbidden {
        AddressClass::Forbidden
    } else if (first & 0xe000) == 0x2000 {
        AddressClass::Public
    } else {
        AddressClass::Private
    }
}

/// The IPv4 address that a translator would reach for this IPv6 address.
fn carried_by(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        // NAT64, well known and local.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => {
            Some(v4(high, low))
        }
        // 6to4, and SIIT.
        [0x2002, high, low, ..] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        // Teredo, whose client address is inverted.
        [0x2001, 0, _, _, _, _, high, low] => Some(v4(!high, !low)),
        // IPv4-compatible; the addresses of IPv6 itself are not meant.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        _ => None,
    }
}

/// Names that lead to metadata services or back to the machine, whatever they resolve to.
pub(super) fn is_forbidden_name(name: &HostName) -> bool {
    const NAMES: [&str; 8] = [
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.platformequinix.com",
        "localhost.localdomain",
    ];
    NAMES.contains(&name.as_str()) || name.labels().next() == Some("localhost")
}

/// Whether some rule lists this address, so that a private one may be reached.
pub(super) fn lists(range: &IpNet, address: IpAddr) -> bool {
    range.contains(&address.to_canonical())
}
