//! The readers of what clients and shims say, for fuzzers and generated tests. Nothing else uses
//! this.

pub use crate::rooms::fuzzing::opening;
pub use bulkhead_backends::fuzzing::tree;

/// A packet of a sandbox to its neighbours.
pub fn packet(bytes: &[u8]) {
    crate::neighbours::check_packet(bytes);
}
