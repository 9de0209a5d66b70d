//! `bulkhead version`: which Bulkhead this is.

use serde_json::json;

use crate::{args::JsonArgs, failure::Failure, printer::Printer};

/// Prints the version.
pub(crate) fn run(args: &JsonArgs, printer: &Printer) -> Result<u8, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let text = if args.json {
        format!("{}\n", json!({ "name": "bulkhead", "version": version }))
    } else {
        format!("bulkhead {version}\n")
    };
    printer.payload(&text)?;
    Ok(0)
}
