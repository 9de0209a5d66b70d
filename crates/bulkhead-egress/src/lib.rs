//! The one way out of a sandbox.
//!
//! A [`Gateway`] stands on the host and owns every socket through which a sandbox can talk. Each
//! protocol (`http`, `connect`, `socks5`, `transparent`, `dns`) has a file that reads what a
//! program wants and yields a `Destination`. `gate` alone decides about it and leaves a permit as
//! proof; `dial` takes nothing but a permit, resolves the name once, looks at every address and
//! dials one of those that it has looked at.
//!
//! Invariants:
//! - Who asks is known by the socket that it came through, never by anything that it says.
//! - What no rule allows goes nowhere: not as a connection, not as a query for its name.
//! - A gateway that is gone is a way out that is shut: the sandbox has no other route.
//! - Every buffer has a size and every wait has an end; a hostile peer wears out its own sandbox.

mod authority;
mod base64;
mod connect;
mod destination;
mod dial;
mod dns;
mod entrance;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod gateway;
mod hello;
mod http;
mod meter;
mod neighbours;
mod plan;
mod refusal;
mod relay;
mod report;
mod resolve;
mod room;
mod socks5;
mod synthetic;
mod terminate;
mod transparent;
mod trust;
mod tunnel;
mod usage;
mod vault;
mod wire;

pub use dial::{Connecting, Connector, Direct};
pub use entrance::Entrances;
pub use gateway::{Gateway, HeadersRefused, StartFailed};
pub use neighbours::{Neighbours, Reaching};
pub use plan::{BoundSecret, GatewayPlan, InvalidProxy, ProxyAddress, Timings, Upstream};
pub use resolve::{Resolver, Resolving, SystemResolver};
pub use synthetic::Range;
pub use wire::Duplex;
