//! What is there in the top directory of a workspace, found by one look: most of what must be
//! protected is absent from most of them, and to ask for each name alone takes longer.

use std::{ffi::OsString, path::Path};

use bulkhead_linux::listing::entries;

/// In a directory with more entries each name is asked for alone.
const MOST: usize = 2_000;

/// The names in a directory that begin with a dot, if they are known.
pub(super) struct Names(Option<Vec<OsString>>);

impl Names {
    pub(super) fn of(dir: &Path) -> Self {
        let Ok(entries) = entries(dir) else { return Self(None) };
        let mut count = 0;
        let counted = entries.take(MOST).inspect(|_| count += 1).map(|it| it.name);
        let names = counted.filter(|it| it.as_encoded_bytes().starts_with(b".")).collect();
        Self(Some(names).filter(|_| count < MOST))
    }

    /// Whether `name`, which begins with a dot, is certainly not there. One that differs only in
    /// upper and lower case is the same name in some directories.
    pub(super) fn lack(&self, name: &str) -> bool {
        let same = |it: &OsString| it.eq_ignore_ascii_case(name);
        self.0.as_ref().is_some_and(|names| !names.iter().any(same))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{MOST, Names};

    #[test]
    fn only_what_was_looked_for_in_vain_is_lacking() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".git", ".IDEA", "plain"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let names = Names::of(dir.path());
        let lack = [".git", ".idea", ".vscode", ".gi"].map(|it| names.lack(it));
        assert_eq!(lack, [false, false, true, true]);
        assert!(!Names::of(&dir.path().join("nothing")).lack(".git"));
        for number in 0..MOST {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert!(!Names::of(dir.path()).lack(".vscode"));
    }
}
