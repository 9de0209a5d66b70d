//! Addresses that stand for names.
//!
//! A name that may be reached is answered with an address of ours; a connection to that address
//! brings the name back. So a program that knows nothing of proxies tells us whom it means.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Mutex, PoisonError},
};

use bulkhead_spec::HostName;

/// Which addresses stand for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// `198.18.0.0/15`, where every address leads to us.
    Benchmark,
    /// `127.128.0.0/9`, where only loopback does.
    Loopback,
}

/// The most names that are remembered; nobody has so many good reasons.
const MOST: u32 = 16_384;

impl Range {
    fn first(self) -> u32 {
        match self {
            Self::Benchmark => u32::from(Ipv4Addr::new(198, 18, 1, 0)),
            Self::Loopback => u32::from(Ipv4Addr::new(127, 128, 1, 0)),
        }
    }
}

/// The names that have an address, for the life of a sandbox.
pub(crate) struct Names {
    first: u32,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_name: HashMap<HostName, u32>,
    by_place: Vec<HostName>,
}

impl Names {
    pub(crate) fn new(range: Range) -> Self {
        Self { first: range.first(), known: Mutex::default() }
    }

    /// The address that stands for `name` from here on; `None` when there are too many.
    pub(crate) fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.by_name.get(name) {
            return Some(Ipv4Addr::from(self.first + place));
        }
        let place = u32::try_from(known.by_place.len()).ok().filter(|it| *it < MOST)?;
        known.by_name.insert(name.clone(), place);
        known.by_place.push(name.clone());
        Some(Ipv4Addr::from(self.first + place))
    }

    /// The name that `address` stands for.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        let place = u32::from(address).checked_sub(self.first)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_place.get(usize::try_from(place).ok()?).cloned()
    }
}
