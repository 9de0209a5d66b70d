//! A table that reads well in a terminal and is valid Markdown.

use std::fmt;

/// Rows of cells under a head; the first column is text, others that hold only numbers are
/// aligned to the right.
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { head: head.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a row; a pipe in a cell would end the cell, so it becomes a slash.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| cell.replace('|', "/")).to_vec());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.chain(self.head.get(column)).map(|it| it.chars().count()).max();
        widest.unwrap_or(0).max(3)
    }

    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        column > 0
            && cells.all(|it| {
                it.starts_with(|c: char| c.is_ascii_digit()) || it == "–" || it.is_empty()
            })
    }

    fn line(&self, out: &mut fmt::Formatter<'_>, cells: &[String]) -> fmt::Result {
        write!(out, "|")?;
        for (column, cell) in cells.iter().enumerate() {
            let width = self.width(column);
            if self.is_numeric(column) {
                write!(out, " {cell:>width$} |")?;
            } else {
                write!(out, " {cell:<width$} |")?;
            }
        }
        writeln!(out)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(out, &self.head)?;
        write!(out, "|")?;
        for column in 0..self.head.len() {
            let dashes = "-".repeat(self.width(column));
            let end = if self.is_numeric(column) { ":" } else { "-" };
            write!(out, "-{dashes}{end}|")?;
        }
        writeln!(out)?;
        self.rows.iter().try_for_each(|row| self.line(out, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let mut table = Table::new(["what", "ms", "note"]);
        table.row(["a".to_owned(), "12.50".to_owned(), "x|y".to_owned()]);
        table.row(["bcdef".to_owned(), "–".to_owned(), String::new()]);
        let expected = "\
            | what  |    ms | note |\n\
            |-------|------:|------|\n\
            | a     | 12.50 | x/y  |\n\
            | bcdef |     – |      |\n";
        assert_eq!(table.to_string(), expected);
    }
}
