//! The straight line from a wish to an outcome.
//!
//! ```text
//! Spec ─resolve→ Plan ─place→ Backend ─create→ Sandbox ─exec→ Process ─wait→ Outcome
//! ```
//!
//! Invariant: every front door enters through [`Engine::run`]. Only the engine stops a program for
//! time, caps output and records what happened.

mod console;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod neighbours;
mod place;
mod pump;
pub mod room;
pub mod rooms;
mod supervise;
pub mod way_out;

pub use console::{Console, Control};
pub use engine::{Engine, Placed};
pub use error::{ErrorKind, RunError};
pub use ledger::{JsonLines, Ledger};
pub use place::upheld_by;
pub use way_out::{Outside, Secrets};
