//! One promise: a figure that must stay on its side of a bound.

use std::fmt;

use crate::bench::table::Table;
use crate::trouble::Trouble;

/// A row of the table of promises.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) key: String,
    pub(crate) prose: String,
    pub(crate) bound: Bound,
    pub(crate) measured: String,
}

/// What a figure must be to keep the promise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    side: Side,
    limit: f64,
    unit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
    Below,
    Above,
}

impl Promise {
    pub(super) fn parse(row: &str) -> Result<Self, Trouble> {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [key, prose, bound, measured] = cells.as_slice() else {
            return Err(Trouble::new(format!(
                "a promise has four cells, not those of `{row}`"
            )));
        };
        let key = key.trim_matches('`').to_owned();
        let bound = Bound::parse(bound).ok_or_else(|| {
            Trouble::new(format!(
                "`{key}` has the bound `{bound}`, which is not `≤`, `≥`, `<` or `>` and a number"
            ))
        })?;
        Ok(Self { key, prose: (*prose).to_owned(), bound, measured: (*measured).to_owned() })
    }
}

impl Bound {
    fn parse(text: &str) -> Option<Self> {
        let mut characters = text.chars();
        let side = match characters.next()? {
            '≤' => Side::AtMost,
            '≥' => Side::AtLeast,
            '<' => Side::Below,
            '>' => Side::Above,
            _ => return None,
        };
        let rest = characters.as_str().trim();
        let (number, unit) = rest.split_once(' ').unwrap_or((rest, ""));
        let limit = number.parse().ok().filter(|it: &f64| it.is_finite())?;
        Some(Self { side, limit, unit: unit.trim().to_owned() })
    }

    /// Whether a figure keeps the promise.
    pub(crate) fn holds(&self, figure: f64) -> bool {
        match self.side {
            Side::AtMost => figure <= self.limit,
            Side::AtLeast => figure >= self.limit,
            Side::Below => figure < self.limit,
            Side::Above => figure > self.limit,
        }
    }

    /// A figure in the unit of the bound, to three significant places.
    pub(crate) fn show(&self, figure: f64) -> String {
        let places = if figure.abs() >= 100.0 {
            0
        } else if figure.abs() >= 10.0 {
            1
        } else {
            3
        };
        let number = format!("{figure:.places$}");
        let number = match number.split_once('.') {
            Some(_) => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
            None => number,
        };
        format!("{number} {}", self.unit).trim_end().to_owned()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::AtMost => '≤',
            Side::AtLeast => '≥',
            Side::Below => '<',
            Side::Above => '>',
        };
        write!(out, "{}", format!("{side} {} {}", self.limit, self.unit).trim_end())
    }
}

/// The table of promises as it stands on the page.
pub(super) fn table(promises: &[Promise]) -> String {
    let mut table = Table::new(["key", "promise", "bound", "measured"]);
    for promise in promises {
        table.row([
            format!("`{}`", promise.key),
            promise.prose.clone(),
            promise.bound.to_string(),
            promise.measured.clone(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_on_its_side_only() {
        let check = |bound: &str, figure: f64| Bound::parse(bound).unwrap().holds(figure);
        assert!(check("≤ 0.8", 0.8) && !check("≤ 0.8", 0.81));
        assert!(check("≥ 60", 60.0) && !check("≥ 60", 59.9));
        assert!(check("< 3 s", 2.99) && !check("< 3 s", 3.0));
        assert!(check("> 1", 1.1) && !check("> 1", 1.0));
        assert!(!check("≤ 0.8", f64::NAN));
    }

    #[test]
    fn a_bound_is_written_as_it_was_read() {
        for text in ["≤ 0.8", "≥ 60", "< 3 s", "≤ 2 MiB"] {
            assert_eq!(Bound::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "0.8", "≤", "≤ x", "≤ NaN", "~ 3"] {
            assert_eq!(Bound::parse(text), None);
        }
    }

    #[test]
    fn a_figure_is_shown_in_the_unit_of_its_bound() {
        let show = |figure: f64| Bound::parse("≤ 2 MiB").unwrap().show(figure);
        assert_eq!(
            [show(0.51234), show(12.0), show(120.4)],
            ["0.512 MiB", "12 MiB", "120 MiB"]
        );
    }
}
