//! A few stretches of addresses.

/// How many there can be. The kernel puts what it maps side by side, so that there are few.
const MOST: usize = 16;

/// Where something lies: from the first address to before the second, each, or nothing of the kind is
/// known because it lies in too many places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    each: [(usize, usize); MOST],
    /// Nothing lies before the first or from the second on.
    within: (usize, usize),
    known: bool,
}

impl Spans {
    pub(super) const NONE: Self =
        Self { each: [(0, 0); MOST], within: (usize::MAX, 0), known: true };

    pub(super) fn contains(&self, address: usize) -> bool {
        // Asked for each piece of memory that is freed.
        let (first, last) = self.within;
        (first..last).contains(&address)
            && self.each.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// These and `size` bytes from `start`, which were none of them.
    pub(super) fn with(mut self, start: usize, size: usize) -> Self {
        let (mut start, mut end) = (start, start.saturating_add(size));
        for span in &mut self.each {
            if span.0 < span.1 && (span.1 == start || span.0 == end) {
                (start, end) = (start.min(span.0), end.max(span.1));
                *span = (0, 0);
            }
        }
        self.within = (start.min(self.within.0), end.max(self.within.1));
        match self.each.iter_mut().find(|it| it.0 == it.1) {
            Some(free) => *free = (start, end),
            None => self.known = false,
        }
        self
    }

    /// These without `size` bytes from `start`.
    pub(super) fn without(mut self, start: usize, size: usize) -> Self {
        let end = start.saturating_add(size);
        for span in self.each {
            if span.0 < end && start < span.1 {
                let place = self.each.iter_mut().find(|it| **it == span);
                if let Some(place) = place {
                    *place = (0, 0);
                }
                if span.0 < start {
                    self = self.with(span.0, start - span.0);
                }
                if end < span.1 {
                    self = self.with(end, span.1 - end);
                }
            }
        }
        self
    }

    /// These and `others`, if all of them are known.
    pub(super) fn and(self, others: &Self) -> Option<Self> {
        let others_known = others.known;
        let some = others.each.iter().filter(|it| it.0 < it.1);
        let both = some.fold(self, |all, it| all.with(it.0, it.1 - it.0));
        (both.known && others_known).then_some(both)
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Spans};

    fn of(spans: &[(usize, usize)]) -> Spans {
        spans.iter().fold(Spans::NONE, |all, (start, size)| all.with(*start, *size))
    }

    #[test]
    fn what_lies_side_by_side_is_one() {
        let joined = of(&[(10, 10), (30, 10), (20, 10)]);
        let one = joined.each.iter().filter(|it| it.0 < it.1).copied();
        assert_eq!(one.collect::<Vec<_>>(), [(10, 40)]);
        assert!(joined.contains(10) && joined.contains(39));
        assert!(!joined.contains(9) && !joined.contains(40) && !joined.contains(0));
    }

    #[test]
    fn what_is_taken_out_of_the_middle_leaves_both_ends() {
        let left = of(&[(10, 30)]).without(20, 10);
        assert!(left.contains(19) && !left.contains(20) && !left.contains(29));
        assert!(left.contains(30) && !left.contains(40));
        assert!(!left.without(0, 100).contains(10));
    }

    #[test]
    fn too_many_are_not_known() {
        let many: Vec<_> = (0..=MOST).map(|at| (100 * at + 100, 1)).collect();
        assert!(Spans::NONE.and(&of(&many)).is_none());
        assert!(Spans::NONE.and(&of(&many[1..])).is_some());
        assert!(of(&many[..MOST]).and(&of(&many[MOST..])).is_none());
    }
}
