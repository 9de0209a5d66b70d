//! The caller's side of a running program: its streams, its terminal, its signals.

mod signals;
mod stream;
mod terminal;

use std::io::IsTerminal as _;

use bulkhead_spec::Stdin;

pub(crate) use signals::{Listener, watch};
pub(crate) use stream::{Lost, Passage};
pub(crate) use terminal::RawMode;

use crate::{args::run::ConsoleArgs, codes::Code, failure::Failure, wish::Caller};

/// Looks at what Bulkhead was started on, and decides what the program gets of it.
///
/// Like Docker, `-t` insists on a terminal; unlike Docker, one is given unasked where there is one
/// on both sides, and input that is not a terminal is always passed on.
pub(crate) fn look(args: &ConsoleArgs) -> Result<Caller, Failure> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if args.tty && !stdin.is_terminal() {
        return Err(Failure::new(Code::Argument, "-t needs a terminal, and stdin is none")
            .hint("leave -t out, or start Bulkhead on a terminal"));
    }
    let terminal = if args.tty || (stdin.is_terminal() && stdout.is_terminal()) {
        Some(terminal::size())
    } else {
        None
    };
    let wanted = terminal.is_some() || args.interactive || !stdin.is_terminal();
    let stdin = if wanted && !stream::is_null(&stdin) { Stdin::Piped } else { Stdin::Empty };
    Ok(Caller { stdin, terminal })
}
