//! Which doors a sandbox has, and which socket is which.

use std::os::fd::{BorrowedFd, OwnedFd};

use bulkhead_linux::doors::{At, Carries, Door, receive};
use bulkhead_policy::{NAMES_PORT, PROXY_PORT, Plan, SOCKS_PORT};
use bulkhead_spec::Network;

use super::create::built;
use crate::{BackendError, Doors};

/// The doors for `plan`: both proxies, names, names by stream, then a door for each port.
pub(super) fn wanted(plan: &Plan) -> Vec<Door> {
    let everywhere = |port| Door { carries: Carries::Streams, at: At::Everywhere, port };
    let first = [
        Door { carries: Carries::Streams, at: At::Loopback, port: PROXY_PORT },
        Door { carries: Carries::Streams, at: At::Loopback, port: SOCKS_PORT },
        Door { carries: Carries::Datagrams, at: At::Everywhere, port: NAMES_PORT },
        everywhere(NAMES_PORT),
    ];
    first.into_iter().chain(plan.ports().into_iter().map(everywhere)).collect()
}

/// Takes over what the child has opened; nothing from one that has failed, whose silence tells.
pub(super) fn take(
    plan: &Plan,
    from: BorrowedFd<'_>,
    child: BorrowedFd<'_>,
) -> Result<Option<Doors>, BackendError> {
    match plan.network() {
        Network::Proxy | Network::Observe => {
            receive(from, child).map(sorted).map_err(built("take over the sandbox's doors"))
        }
        Network::None | Network::Open => Ok(None),
    }
}

/// The sockets of [`wanted`], in its order.
fn sorted(sockets: Vec<OwnedFd>) -> Option<Doors> {
    let mut sockets = sockets.into_iter();
    Some(Doors {
        proxy: sockets.next()?.into(),
        socks: sockets.next()?.into(),
        names: sockets.next()?.into(),
        names_by_stream: sockets.next()?.into(),
        streams: sockets.map(Into::into).collect(),
    })
}
