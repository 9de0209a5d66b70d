//! What runs inside: PID 1 of every sandbox, and how the host talks to it.
//!
//! [`protocol`] is shared by both sides. [`serve`] is the guest's whole life: put the walls up,
//! start programs, carry what they read and write, reap, report, and end with the control stream,
//! so that no sandbox outlives whoever watches over it.
//!
//! Invariant: the guest has no privilege that the programs it starts lack; it is a process among
//! them that happens to be the first.

mod control;
pub mod filling;
pub mod layer;
pub mod protocol;
mod serve;
pub mod wire;

pub use control::Control;
pub use serve::serve;
