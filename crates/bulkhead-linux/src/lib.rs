//! The linux crate of Bulkhead.
