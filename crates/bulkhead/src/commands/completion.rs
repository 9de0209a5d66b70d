//! `bulkhead completion SHELL`: a script that completes the command line.

use crate::{
    args::{Args, CompletionArgs},
    failure::Failure,
    printer::Printer,
};

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs, printer: &Printer) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command_line(), "bulkhead", &mut script);
    printer.payload(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
