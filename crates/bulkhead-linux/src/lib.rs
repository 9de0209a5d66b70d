//! The linux crate of Bulkhead.

pub mod seccomp;
