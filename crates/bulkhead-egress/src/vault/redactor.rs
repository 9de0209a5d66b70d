//! Removes values from a stream, wherever it is cut into pieces.

use bytes::Bytes;

use super::{Swap, find, replaced};

/// Replaces each value that passes by its placeholder.
pub(crate) struct Redactor {
    swap: Swap,
    held: Vec<u8>,
}

impl Redactor {
    pub(crate) fn new(swap: Swap) -> Self {
        Self { swap, held: Vec::new() }
    }

    /// Whether more or less can come out than went in.
    pub(crate) fn changes_length(&self) -> bool {
        self.swap.changes_length()
    }

    /// What can be passed on; what could be the beginning of a value is held back.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Bytes {
        self.held.extend_from_slice(bytes);
        self.replace();
        let keep = self.beginning();
        let rest = self.held.split_off(self.held.len() - keep);
        Bytes::from(std::mem::replace(&mut self.held, rest))
    }

    /// The rest.
    pub(crate) fn finish(mut self) -> Bytes {
        self.replace();
        Bytes::from(self.held)
    }

    fn replace(&mut self) {
        for kept in &self.swap.0 {
            let value = kept.value.expose().as_bytes();
            if find(&self.held, value).is_some() {
                let all = replaced(&self.held, value, kept.placeholder.as_bytes());
                self.held = all.unwrap_or_default();
            }
        }
    }

    /// How many of the last bytes could be the beginning of a value.
    fn beginning(&self) -> usize {
        let of = |value: &[u8]| {
            let most = value.len().saturating_sub(1).min(self.held.len());
            (1..=most).rev().find(|length| {
                let tail = self.held.get(self.held.len() - length..);
                tail.is_some_and(|tail| value.starts_with(tail))
            })
        };
        let values = self.swap.0.iter().map(|it| it.value.expose().as_bytes());
        values.filter_map(of).max().unwrap_or(0)
    }
}
