//! What this crate promises, tried against the kernel of this host.

// `cfg(test)` tells clippy that the helpers are tests too, and may unwrap.
#[cfg(test)]
mod seccomp;
