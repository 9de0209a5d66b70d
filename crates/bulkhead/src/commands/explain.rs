//! `bulkhead explain CODE`: what an error means and what to do.

use bulkhead_spec::escape;

use crate::{
    args::ExplainArgs,
    codes::Code,
    failure::Failure,
    printer::{Paint, Printer},
};

/// Prints the page of one code, or of all.
pub(crate) fn run(args: &ExplainArgs, printer: &Printer) -> Result<u8, Failure> {
    let wanted = args.code.as_deref().map(str::to_ascii_uppercase);
    let pages = Code::ALL.iter().copied().filter(|code| match wanted.as_deref() {
        Some(wanted) => code.name() == wanted,
        None => true,
    });
    let page = |code: Code| {
        let title = printer.painted(Paint::Bold, code.name());
        format!("{title}\n\n{}\n", code.page())
    };
    let pages: Vec<String> = pages.map(page).collect();
    if pages.is_empty() {
        let given = escape(args.code.as_deref().unwrap_or_default());
        return Err(Failure::new(Code::Argument, format!("there is no error code `{given}`"))
            .hint("`bulkhead explain` lists all codes"));
    }
    printer.payload(&pages.concat())?;
    Ok(0)
}
