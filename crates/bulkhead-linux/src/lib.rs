//! The linux crate of Bulkhead.

pub mod cgroup;
pub mod seccomp;
