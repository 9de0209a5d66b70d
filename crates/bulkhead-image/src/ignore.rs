//! `.dockerignore`: which files of a project a build does not see.

/// The patterns of one file; the last that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ignore(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    pattern: String,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Left,
    Taken,
}

impl Ignore {
    /// Reads the patterns.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let rule = |line: &str| {
            let (line, verdict) = match line.strip_prefix('!') {
                Some(rest) => (rest.trim(), Verdict::Taken),
                None => (line, Verdict::Left),
            };
            let pattern = line.trim_start_matches("./").trim_matches('/').to_owned();
            (!pattern.is_empty()).then_some(Rule { pattern, verdict })
        };
        Self(lines.filter(|it| !it.starts_with('#')).filter_map(rule).collect())
    }

    /// Whether the file at `path` is left out.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        let last = self.0.iter().rev().find(|it| matches_it_or_above(&it.pattern, path));
        last.is_some_and(|it| it.verdict == Verdict::Left)
    }
}

/// Whether `pattern` matches `path` or a directory that it is in.
pub(crate) fn matches_it_or_above(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| path.get(..end).is_some_and(|it| matches(pattern, it)))
}

/// Whether `pattern` matches all of `path`: `*` and `?` within a name, `**` over any number of
/// directories, `[a-z]` for one character.
fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').filter(|it| *it != ".").collect();
    let path: Vec<&str> = path.split('/').collect();
    names_match(&pattern, &path)
}

fn names_match(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) if names_match(rest, path) => true,
        (Some((&"**", _)), Some((_, below))) => names_match(pattern, below),
        (Some((first, rest)), Some((name, below))) => {
            let first: Vec<char> = first.chars().collect();
            let name: Vec<char> = name.chars().collect();
            name_matches(&first, &name) && names_match(rest, below)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn name_matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) if name_matches(rest, name) => true,
        (Some(('*', _)), Some((_, after))) => name_matches(pattern, after),
        (Some(('?', rest)), Some((_, after))) => name_matches(rest, after),
        (Some(('[', rest)), Some((it, after))) => {
            let Some(end) = rest.iter().position(|it| *it == ']') else { return false };
            let (set, rest) = rest.split_at(end);
            in_set(set, *it) && name_matches(rest.get(1..).unwrap_or_default(), after)
        }
        (Some(('\\', rest)), Some((it, after))) => rest
            .split_first()
            .is_some_and(|(first, rest)| first == it && name_matches(rest, after)),
        (Some((first, rest)), Some((it, after))) => first == it && name_matches(rest, after),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn in_set(set: &[char], it: char) -> bool {
    let (set, wanted) = match set.split_first() {
        Some(('^', rest)) => (rest, false),
        Some(_) | None => (set, true),
    };
    let spans = set.windows(3).any(|span| match span {
        [from, '-', to] => (*from..=*to).contains(&it),
        _ => false,
    });
    (spans || set.contains(&it)) == wanted
}

#[cfg(test)]
mod tests {
    use super::{Ignore, matches};

    #[test]
    fn patterns_match_names_and_directories() {
        for (pattern, path, expected) in [
            ("a", "a", true),
            ("*.go", "main.go", true),
            ("*.go", "cmd/main.go", false),
            ("**/*.go", "cmd/x/main.go", true),
            ("**/*.go", "main.go", true),
            ("a/**", "a/b/c", true),
            ("a/**/c", "a/c", true),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("\\*", "*", true),
            ("**", "a/b", true),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_last_pattern_decides() {
        let ignore = Ignore::parse("# no\nnode_modules\n/docs/\n**/.env*\n!docs/keep.md\n");
        let left = ["node_modules/a/b", "docs/x", "api/.env.local", ".env"];
        assert!(left.iter().all(|it| ignore.leaves_out(it)));
        let taken = ["docs/keep.md", "a/node_modules/x", "environment", "# no"];
        assert!(!taken.iter().any(|it| ignore.leaves_out(it)));
    }
}
