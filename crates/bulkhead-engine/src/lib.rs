//! The engine crate of Bulkhead.
