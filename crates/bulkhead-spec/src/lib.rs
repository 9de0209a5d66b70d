//! The spec crate of Bulkhead.
