//! Doors to rooms over HTTP.
//!
//! ```text
//! connection ─▶ wire ─▶ route ─▶ e2b::control (rooms come and go)
//!                              ├▶ e2b::envd    (programs and files of one room)
//!                              ├▶ e2b::interpreter (code, piece by piece)
//!                              └▶ api          (our own: all of that, under /v1)
//! ```
//!
//! Invariant: doors translate and nothing else. Rooms are made, held and ended by the engine; what
//! a caller may do was decided by the policy that the server was started with.

mod api;
mod builds;
mod clock;
mod e2b;
mod forward;
#[doc(hidden)]
pub mod fuzzing;
mod house;
mod keys;
mod locked;
mod private;
mod random;
mod route;
mod secrets;
mod templates;
mod tls;
mod volumes;
mod wire;

pub use api::{PROTOCOL, Settings, description, record, words};
pub use clock::seconds_of;
pub use house::{Base, House};
pub use keys::{Key, KeyError, Keys, Scope};
pub use tls::Certificates;
pub use wire::{Door, serve};
