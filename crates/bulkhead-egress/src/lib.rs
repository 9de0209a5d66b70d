//! The one way out of a sandbox.
