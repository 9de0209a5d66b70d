//! What somebody probably meant.

/// The one of `known` that is nearest to `given`, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (given.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|it| (distance(given, it), it))
        .filter(|&(far, _)| far <= most)
        .min_by_key(|&(far, _)| far)
        .map(|(_, it)| it)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().map(|it| it.to_ascii_lowercase()).collect();
    // Three rows of the table are enough: a swap looks two rows back.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    let mut previous = None;
    for (row, letter) in one.chars().map(|it| it.to_ascii_lowercase()).enumerate() {
        let mut current = vec![row + 1];
        let mut left = None;
        for (column, &wanted) in other.iter().enumerate() {
            let at =
                |of: &[usize], column: usize| of.get(column).copied().unwrap_or(usize::MAX / 2);
            let change = at(&above, column) + usize::from(letter != wanted);
            let mut least =
                change.min(at(&above, column + 1) + 1).min(at(&current, column) + 1);
            if previous == Some(wanted) && left == Some(letter) {
                least = least.min(at(&before, column.wrapping_sub(1)) + 1);
            }
            current.push(least);
            left = Some(wanted);
        }
        previous = Some(letter);
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["memory", "cpus", "pids", "timeout", "network"];
        let meant = |given| nearest(given, known);
        assert_eq!(
            [meant("memroy"), meant("Memory"), meant("cpu"), meant("netwrok"), meant("colour")],
            [Some("memory"), Some("memory"), Some("cpus"), Some("network"), None]
        );
    }
}
