//! The backends by names that another process can make them from again.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

use bulkhead_backends::{
    Backend, Native, Places, Unwalled,
    container::{Candidate, Container, Facts, Product, Unavailable, detect::Address, probe},
};
use bulkhead_spec::Guarantee;
use libtest_mimic::Failed;

use crate::{host, room::chain};

/// One way to make a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// No walls.
    None,
    /// The kernel's own parts.
    Native,
    /// A daemon, and the runtime that it starts sandboxes with.
    Daemon {
        /// Where it is.
        address: String,
        /// By the name that it knows.
        runtime: String,
    },
}

impl Maker {
    /// The maker that `words` name.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        match *words.split(' ').collect::<Vec<_>>().as_slice() {
            ["none"] => Some(Self::None),
            ["native"] => Some(Self::Native),
            [runtime, address] => {
                Some(Self::Daemon { address: address.to_owned(), runtime: runtime.to_owned() })
            }
            _ => None,
        }
    }

    pub(crate) fn to_words(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Native => "native".to_owned(),
            Self::Daemon { address, runtime } => format!("{runtime} {address}"),
        }
    }

    /// The backend, with places of its own below `dir`.
    pub(crate) fn make(&self, dir: &Path) -> Result<Box<dyn Backend>, Failed> {
        let places =
            Places { state: dir.join("state"), runtime: dir.join("run"), bus: host::bus() };
        Ok(match self {
            Self::None => Box::new(Unwalled),
            Self::Native => Box::new(Native::probe(places)),
            Self::Daemon { address, runtime } => {
                let container = Container::new(facts(address)?, Some(runtime), places);
                Box::new(container.map_err(chain)?)
            }
        })
    }
}

/// The daemons that are tried here, by the names of their backends and by what they start
/// sandboxes with: Podman has a service of its own for each.
static DAEMONS: Mutex<BTreeMap<(&'static str, &'static str), String>> =
    Mutex::new(BTreeMap::new());

/// Notes how `backend` was made, if a daemon builds for it.
pub(crate) fn note(backend: &dyn Backend, maker: &Maker) {
    let Maker::Daemon { address, runtime: _ } = maker else { return };
    let mut daemons = DAEMONS.lock().unwrap_or_else(PoisonError::into_inner);
    daemons.insert((backend.name(), runtime_of(backend)), address.to_owned());
}

/// How `backend` can be made again.
pub(crate) fn maker_of(backend: &dyn Backend) -> Maker {
    let daemons = DAEMONS.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = runtime_of(backend);
    match (backend.name(), daemons.get(&(backend.name(), runtime))) {
        ("none", _) => Maker::None,
        (_, None) => Maker::Native,
        (_, Some(address)) => {
            Maker::Daemon { address: address.clone(), runtime: runtime.to_owned() }
        }
    }
}

fn runtime_of(backend: &dyn Backend) -> &'static str {
    let gvisor = backend.upholds().contains(Guarantee::HostKernelShielded);
    if gvisor { "runsc" } else { "runc" }
}

/// What the daemon at `address` says about itself.
pub(crate) fn facts(address: &str) -> Result<Facts, Failed> {
    let candidate = Candidate {
        product: Product::Docker,
        address: Address::parse(address),
        said_by: "the test".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // On a machine that does much else, a daemon can need longer than a user would wait.
    for _ in 0..10 {
        match runtime.block_on(async { probe(&candidate).await }) {
            Err(Unavailable::Slow { .. }) => {}
            found => return Ok(found?),
        }
    }
    Err("the daemon is too slow".into())
}
