//! Versions, and the ranges that manifests ask for: npm's and Python's ways to write them.

use std::cmp::Ordering;

/// A release: up to three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u64; 3]);

impl Version {
    /// Reads `1`, `1.2` or `1.2.3`; and how many numbers there were.
    fn parse(text: &str) -> Option<(Self, usize)> {
        let text = text.trim().trim_start_matches(['v', '=']);
        // A pre-release or build is part of the release that it leads to.
        let text = text.split(['-', '+']).next().unwrap_or(text);
        let mut numbers = [0; 3];
        let mut count = 0;
        for part in text.split('.') {
            if matches!(part, "x" | "X" | "*") {
                break;
            }
            *numbers.get_mut(count)? = part.parse().ok()?;
            count += 1;
        }
        Some((Self(numbers), count))
    }

    /// Reads a version.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(Self::parse(text)?.0)
    }

    /// The first version after all that start with the first `count` numbers of this one.
    fn after(self, count: usize) -> Self {
        let [major, minor, patch] = self.0;
        Self(match count {
            0 => [u64::MAX, 0, 0],
            1 => [major.saturating_add(1), 0, 0],
            2 => [major, minor.saturating_add(1), 0],
            _ => [major, minor, patch.saturating_add(1)],
        })
    }
}

/// Whether `version` lies in `range`. A range that cannot be understood holds nothing.
pub(crate) fn holds(range: &str, version: &str) -> bool {
    let Some(version) = Version::of(version) else { return false };
    range.split("||").any(|part| all_hold(part, version))
}

fn all_hold(part: &str, version: Version) -> bool {
    if let Some((from, to)) = part.split_once(" - ") {
        return one_holds(">=", from, version) && one_holds("<=", to, version);
    }
    let words = part.replace(',', " ");
    let mut rest = words.trim();
    if rest.is_empty() || rest == "latest" || rest == "node" {
        return true;
    }
    while !rest.is_empty() {
        let end = rest.find(|it: char| !"<>=!~^".contains(it)).unwrap_or(rest.len());
        let (operator, after) = rest.split_at(end);
        let after = after.trim_start();
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        if !one_holds(operator, number, version) {
            return false;
        }
        rest = after.trim_start();
    }
    true
}

fn one_holds(operator: &str, number: &str, version: Version) -> bool {
    let Some((asked, count)) = Version::parse(number) else { return false };
    let within = |end: Version| asked <= version && version < end;
    match operator {
        "" | "=" | "==" | "===" => within(asked.after(count)),
        "!=" => !within(asked.after(count)),
        ">=" => asked <= version,
        ">" => asked.after(count) <= version,
        "<" => version.cmp(&asked) == Ordering::Less,
        "<=" => version < asked.after(count),
        "~" => within(asked.after(count.min(2))),
        // Python: the last number may grow.
        "~=" => within(asked.after(count.saturating_sub(1))),
        "^" => within(asked.after(caret(asked))),
        _ => false,
    }
}

/// `^` lets everything grow right of the first number that is not zero.
fn caret(asked: Version) -> usize {
    asked.0.iter().position(|it| *it != 0).map_or(3, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn ranges_mean_what_npm_and_python_mean() {
        for (range, inside, outside) in [
            (">=18", "18.20.8", "16.1.0"),
            ("^20.1", "20.19.4", "21.0.0"),
            ("20.x", "20.0.1", "22.1.0"),
            ("18 || 20", "20.19.4", "19.1.0"),
            (">=18 <21", "20.19.4", "21.0.0"),
            (">= 18.0.0 < 21", "20.19.4", "22.0.0"),
            ("16 - 18", "18.20.8", "20.1.0"),
            (">=3.9,<3.13", "3.12.11", "3.13.7"),
            ("~=3.10", "3.13.7", "4.0.0"),
            ("==3.11.*", "3.11.13", "3.12.0"),
            (">=3.9,!=3.10.*", "3.11.1", "3.10.4"),
            ("^3.10", "3.13.7", "3.9.1"),
            ("~1.22", "1.22.12", "1.23.0"),
            ("^0.3.1", "0.3.4", "0.4.0"),
            ("v20", "20.1.0", "nonsense"),
            (">3.9", "3.10.0", "3.9.23"),
            ("<=3.11", "3.11.13", "3.12.0"),
        ] {
            assert!(holds(range, inside), "`{range}` holds {inside}");
            assert!(!holds(range, outside), "`{range}` does not hold {outside}");
        }
        assert!(!holds("rm -rf /", "1.0.0"));
    }
}
