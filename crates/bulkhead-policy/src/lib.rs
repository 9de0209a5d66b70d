//! The policy crate of Bulkhead.
