//! The caller's side of a running program: its streams, its terminal, its signals.

mod keys;
mod signals;
mod stream;
mod terminal;

use std::io::{self, IsTerminal as _};

use bulkhead_engine::{Console, Control};
use bulkhead_spec::{Bytes, Stdin};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub(crate) use signals::{Listener, watch};
pub(crate) use stream::{Lost, Passage};
pub(crate) use terminal::RawMode;

use self::keys::{Heeded, Keys};
use crate::{
    args::run::ConsoleArgs, codes::Code, failure::Failure, report::Streams, wish::Caller,
};

/// Looks at what Bulkhead was started on, and decides what the program gets of it.
///
/// Like Docker, `-t` insists on a terminal; unlike Docker, one is given unasked where there is one
/// on both sides, and input that is not a terminal is always passed on.
pub(crate) fn look(args: &ConsoleArgs) -> Result<Caller, Failure> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
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

/// The caller's streams as `caller` wants them, the way to interrupt the program, and whether
/// something got lost.
pub(crate) fn open(
    caller: Caller,
    listener: &Listener,
) -> io::Result<(Console, UnboundedSender<Control>, Streams)> {
    let stdin = match caller.stdin {
        Stdin::Empty => None,
        Stdin::Piped => Some(Passage::reading(io::stdin())?),
    };
    let stdout = Passage::writing(io::stdout())?;
    let stderr = Passage::writing(io::stderr())?;
    let streams = Streams { stdout: stdout.lost(), stderr: stderr.lost() };
    let (sender, control) = unbounded_channel();
    let mut console = Console {
        stdin: None,
        stdout: None,
        stderr: Some(Box::new(stderr)),
        // Everything is passed on, so nothing needs keeping.
        keep: Bytes(0),
        control,
        asked: None,
    };
    if caller.terminal.is_some() {
        let keys = |from| Keys { from, heard: listener.sender.clone() };
        console.stdin = stdin.map(|it| Box::new(keys(it)) as _);
        console.stdout =
            Some(Box::new(Heeded { to: stdout, answers: listener.answers.clone() }));
    } else {
        console.stdin = stdin.map(|it| Box::new(it) as _);
        console.stdout = Some(Box::new(stdout));
    }
    Ok((console, sender, streams))
}
