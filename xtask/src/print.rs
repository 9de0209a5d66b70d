//! The only writer to the terminal: results to stdout, everything else to stderr.

use std::io::{self, Write};

use crate::trouble::{OrTrouble, Trouble};

/// Writes a result.
pub(crate) fn result(text: &str) -> Result<(), Trouble> {
    writeln!(io::stdout().lock(), "{}", text.trim_end())
        .or_trouble(|| "could not write the result".to_owned())
}

/// Writes what a program wrote, as it is and at once.
pub(crate) fn passed_on(bytes: &[u8]) -> Result<(), Trouble> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .or_trouble(|| "could not pass on the output".to_owned())
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
