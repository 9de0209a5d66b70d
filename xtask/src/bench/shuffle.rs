//! An order that nobody chose, and that a seed gives again.

use std::time::{SystemTime, UNIX_EPOCH};

/// A xorshift generator: enough to keep a periodic disturbance from meeting the same contestant
/// each time, and no use for anything else.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    pub(crate) fn seeded(seed: u64) -> Self {
        // Zero is the one state that xorshift never leaves.
        Self(seed.max(1))
    }

    /// A seed that differs from run to run.
    pub(crate) fn seed_from_clock() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() ^ (u64::from(now.subsec_nanos()) << 20)
    }

    /// Fisher and Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            let chosen = usize::try_from(self.next() % bound).unwrap_or(last);
            items.swap(last, chosen);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_item_and_a_seed_keeps_the_order() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            Shuffle::seeded(seed).shuffle(&mut items);
            items
        };
        let mut sorted = order(42);
        assert_eq!(order(42), sorted);
        assert_ne!(order(43), sorted);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<u32>>());
    }
}
