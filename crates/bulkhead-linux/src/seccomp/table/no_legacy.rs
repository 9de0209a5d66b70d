//! The calls of the first generation, on an architecture that came after it.

use super::super::rule::Rule;

/// There are none.
pub(super) const ALLOWED: &[Rule] = &[];

/// There are none.
pub(super) const INSPECTED: &[Rule] = &[];

/// There are none.
pub(super) const REFUSED: &[Rule] = &[];
