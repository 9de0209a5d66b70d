//! The only writer to the terminal: results to stdout, everything else to stderr.

use std::io::{self, Write};

use crate::trouble::{OrTrouble, Trouble};

/// Writes a result.
pub(crate) fn result(text: &str) -> Result<(), Trouble> {
    writeln!(io::stdout().lock(), "{}", text.trim_end())
        .or_trouble(|| "could not write the result".to_owned())
}

/// Says what is going on, for a person who waits.
pub(crate) fn progress(text: &str) {
    complain_to_nobody(writeln!(io::stderr().lock(), "{text}"));
}

/// Says why a chore stopped.
pub(crate) fn trouble(trouble: &Trouble) {
    complain_to_nobody(writeln!(io::stderr().lock(), "error: {}", trouble.sentence()));
}

/// With stderr closed there is nobody left to tell, and the chore goes on without it.
fn complain_to_nobody(written: io::Result<()>) {
    drop(written);
}
