//! SPECIFICATION.md as data: the promises that it makes, and the places that figures go to.
//!
//! Promises are the rows of the table between `<!-- promises:begin -->` and
//! `<!-- promises:end -->`: key, prose, bound, measured. Only this file knows that layout.

mod promise;

use std::fs;
use std::path::PathBuf;

use crate::programs;
pub(crate) use crate::specification::promise::Promise;
use crate::trouble::{OrTrouble, Trouble};

/// The section that holds the promises.
const PROMISES: &str = "promises";

/// The text of SPECIFICATION.md.
pub(crate) struct Specification {
    path: PathBuf,
    text: String,
}

/// A figure for a promise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) key: &'static str,
    pub(crate) value: f64,
}

impl Specification {
    /// Reads the specification of this repository.
    pub(crate) fn read() -> Result<Self, Trouble> {
        let path = programs::repository().join("SPECIFICATION.md");
        let text = fs::read_to_string(&path)
            .or_trouble(|| format!("could not read `{}`", path.display()))?;
        Ok(Self { path, text })
    }

    /// Every promise, in the order of the page. A row that cannot be read is an error, so that
    /// a slip of the pen does not quietly take a promise back.
    pub(crate) fn promises(&self) -> Result<Vec<Promise>, Trouble> {
        rows(self.section(PROMISES)?).map(Promise::parse).collect()
    }

    /// Fills in the measured column of the promises that were measured.
    pub(crate) fn record(&mut self, measured: &[Measured]) -> Result<(), Trouble> {
        let mut promises = self.promises()?;
        for promise in &mut promises {
            if let Some(figure) = measured.iter().find(|it| it.key == promise.key) {
                promise.measured = promise.bound.show(figure.value);
            }
        }
        self.replace(PROMISES, &promise::table(&promises))
    }

    /// Puts `content` between the markers of a section.
    pub(crate) fn replace(&mut self, section: &str, content: &str) -> Result<(), Trouble> {
        let (before, after) = self.around(section)?;
        self.text = format!("{before}\n{}\n{after}", content.trim());
        Ok(())
    }

    /// Writes the page back.
    pub(crate) fn save(&self) -> Result<(), Trouble> {
        fs::write(&self.path, &self.text)
            .or_trouble(|| format!("could not write `{}`", self.path.display()))
    }

    fn section(&self, name: &str) -> Result<&str, Trouble> {
        let (before, after) = self.around(name)?;
        let until = self.text.len() - after.len();
        self.text.get(before.len()..until).ok_or_else(|| {
            Trouble::new(format!("the markers of `{name}` are in the wrong order"))
        })
    }

    /// The page up to and with the first marker, and from the last marker on.
    fn around(&self, name: &str) -> Result<(&str, &str), Trouble> {
        let begin = format!("<!-- {name}:begin -->");
        let end = format!("<!-- {name}:end -->");
        let absent = |marker: &str| Trouble::new(format!("SPECIFICATION.md has no `{marker}`"));
        let start = self.text.find(&begin).ok_or_else(|| absent(&begin))? + begin.len();
        let (before, rest) = self.text.split_at(start);
        let stop = rest.find(&end).ok_or_else(|| absent(&end))?;
        Ok((before, rest.split_at(stop).1))
    }
}

/// The rows of a Markdown table without its head.
fn rows(section: &str) -> impl Iterator<Item = &str> {
    section.lines().map(str::trim).filter(|line| line.starts_with('|')).skip(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n<!-- promises:begin -->\n\
        | key | promise | bound | measured |\n|---|---|---|---|\n\
        | `a.b` | words | ≤ 0.8 | – |\n\
        | `c` | other words | < 3 s | 2.5 s |\n\
        <!-- promises:end -->\ntail\n";

    fn page(text: &str) -> Specification {
        Specification { path: PathBuf::new(), text: text.to_owned() }
    }

    #[test]
    fn every_row_of_the_table_is_a_promise() {
        let promises = page(PAGE).promises().unwrap();
        let seen: Vec<(&str, &str, &str)> = promises
            .iter()
            .map(|it| (it.key.as_str(), it.prose.as_str(), it.measured.as_str()))
            .collect();
        assert_eq!(seen, [("a.b", "words", "–"), ("c", "other words", "2.5 s")]);
    }

    #[test]
    fn a_figure_changes_its_own_cell_and_nothing_around_the_table() {
        let mut page = page(PAGE);
        page.record(&[Measured { key: "a.b", value: 0.5 }]).unwrap();
        let cells: Vec<String> =
            page.promises().unwrap().into_iter().map(|it| it.measured).collect();
        assert_eq!(cells, ["0.5", "2.5 s"]);
        assert!(page.text.starts_with("# Title\n<!-- promises:begin -->\n|"));
        assert!(page.text.ends_with("|\n<!-- promises:end -->\ntail\n"));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_an_error() {
        let torn = PAGE.replace("≤ 0.8", "about 0.8");
        let trouble = page(&torn).promises().unwrap_err();
        assert_eq!(
            trouble.to_string(),
            "`a.b` has the bound `about 0.8`, which is not `≤`, `≥`, `<` or `>` and a number"
        );
    }

    #[test]
    fn a_page_without_markers_is_an_error() {
        let trouble = page("# Title\n").promises().unwrap_err();
        assert_eq!(trouble.to_string(), "SPECIFICATION.md has no `<!-- promises:begin -->`");
    }

    #[test]
    fn the_page_of_this_repository_can_be_read() {
        let promises = Specification::read().unwrap().promises().unwrap();
        let keys: Vec<&str> = promises.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, crate::bench::PROMISED);
    }
}
