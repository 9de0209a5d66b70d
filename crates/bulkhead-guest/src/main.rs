//! The guest as a program. Its control stream is descriptor 3.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Ok(control) = bulkhead_linux::inherited::take(3) else { return ExitCode::from(125) };
    match bulkhead_guest::serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        // The host has been told, or is gone.
        Err(_) => ExitCode::from(125),
    }
}
