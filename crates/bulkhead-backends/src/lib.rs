//! The backends crate of Bulkhead.
