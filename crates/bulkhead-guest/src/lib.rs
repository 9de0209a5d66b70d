//! The guest crate of Bulkhead.
