//! The kernel, as steps.
//!
//! This is the only crate that speaks to the kernel without a safe wrapper: it *is* the safe
//! wrapper. Namespaces, mounts, identities and walls are described as data ([`steps::Step`],
//! [`walls::Walls`]), and small loops apply them or stop.
//!
//! Invariant: what runs in a child between clone and exec allocates nothing, takes no lock and
//! touches no `errno`, because that child shares its parent's memory.

pub mod apart;
pub mod begin;
mod beside;
pub mod birth;
pub mod cable;
pub mod cgroup;
mod clone;
pub mod crash;
pub mod datagrams;
pub mod doors;
pub mod fork;
pub mod heap;
pub mod identity;
pub mod inherited;
pub mod landlock;
pub mod launch;
pub mod listing;
pub mod memfd;
pub mod midwife;
pub mod mounts;
mod netlink;
mod network;
mod offspring;
mod orphan;
pub mod paths;
pub mod prompt;
pub mod reap;
mod routes;
pub mod seccomp;
pub mod steps;
mod sys;
pub mod together;
pub mod walls;
