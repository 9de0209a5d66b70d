//! How far a long copy is, on a terminal.

use std::time::{Duration, Instant};

use bulkhead_spec::Bytes;

use crate::printer::Printer;

/// A copy that takes no longer is not worth a line.
const LONG: Duration = Duration::from_millis(500);
/// How often the line is drawn.
const OFTEN: Duration = Duration::from_millis(100);
const WIDTH: u64 = 24;

/// One line that is drawn over; nothing elsewhere than on a terminal.
pub(super) struct Bar<'a> {
    printer: &'a Printer,
    /// How many bytes there will be, if that is known.
    whole: Option<u64>,
    next: Instant,
    drawn: bool,
}

impl<'a> Bar<'a> {
    pub(super) fn new(printer: &'a Printer, whole: Option<u64>) -> Self {
        Self { printer, whole, next: Instant::now() + LONG, drawn: false }
    }

    /// So much was copied.
    pub(super) fn tell(&mut self, entries: u64, bytes: u64) {
        if !self.printer.can_draw() || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + OFTEN;
        self.drawn = true;
        self.printer.draw(&line(self.whole, entries, bytes));
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        if self.drawn {
            self.printer.draw("");
        }
    }
}

fn line(whole: Option<u64>, entries: u64, bytes: u64) -> String {
    let mebi = |bytes: u64| Bytes(bytes >> 20 << 20);
    match whole {
        Some(whole @ 1..) => {
            let part = u128::from(bytes.min(whole)) * u128::from(WIDTH) / u128::from(whole);
            let full = usize::try_from(part).unwrap_or_default();
            let rest = usize::try_from(WIDTH).unwrap_or_default().saturating_sub(full);
            let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(rest));
            format!("{bar} {} of {}", mebi(bytes), mebi(whole))
        }
        Some(0) | None => format!("{entries} files and directories, {}", mebi(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_whole_that_is_known_is_a_bar_and_one_that_is_not_a_count() {
        assert_eq!(
            line(Some(4 << 30), 1, 2 << 30),
            "[############............] 2 GiB of 4 GiB"
        );
        assert_eq!(line(None, 12, 3 << 20), "12 files and directories, 3 MiB");
    }
}
