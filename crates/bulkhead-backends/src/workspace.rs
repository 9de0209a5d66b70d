//! What of the host a sandbox sees, and what of it must stay as it is.
//!
//! The same for every backend that shows directories of this host: [`share`] looks at them,
//! [`protect`] finds the names that the host would run or that hold secrets, and [`stand_in`] keeps
//! absent ones from being made. How a protection is put up is each backend's own. [`disk`] looks at
//! what of the host only the sandbox itself has written.

pub(crate) mod disk;
pub(crate) mod protect;
pub(crate) mod share;
pub(crate) mod stand_in;
