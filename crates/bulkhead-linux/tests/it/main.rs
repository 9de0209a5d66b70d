//! What this crate promises, tried against the kernel of this host.

// `cfg(test)` tells clippy that the helpers are tests too, and may unwrap.
#[cfg(test)]
mod birth;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod inherited;
#[cfg(test)]
mod landlock;
#[cfg(test)]
mod launch;
#[cfg(test)]
mod memfd;
#[cfg(test)]
mod nursery;
#[cfg(test)]
mod reap;
#[cfg(test)]
mod role;
#[cfg(test)]
mod seccomp;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod walls;
