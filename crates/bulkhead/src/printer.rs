//! Everything that Bulkhead itself says.
//!
//! stdout is for what was asked for, stderr for everything else. Text that came from inside a
//! sandbox or from a file was escaped by whoever passes it here.
//!
//! Invariant: nothing else in this crate writes to stdout or stderr, but for a program's output.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::Arc,
};

use crate::{args::run::TalkArgs, codes::Code, config::Environment, failure::Failure};

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    /// Errors and the warning that there are no walls.
    Quiet,
    /// What the user should know.
    #[default]
    Normal,
    /// What was decided.
    Verbose,
}

impl From<&TalkArgs> for Talk {
    fn from(args: &TalkArgs) -> Self {
        match (args.quiet, args.verbose) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Verbose,
            (false, false) => Self::Normal,
        }
    }
}

/// How an error is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl From<bool> for Format {
    /// What `--json` asks for.
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Writes to stdout and stderr.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    stdout: Color,
    stderr: Color,
    /// How much is said.
    pub(crate) talk: Talk,
    /// How an error is written.
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Color {
    On,
    Off,
}

/// The colours that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Something is well.
    Green,
    /// Something deserves a look.
    Yellow,
    /// Something is wrong.
    Red,
    /// Something is a title.
    Bold,
}

impl Printer {
    /// A printer that follows `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM`.
    pub(crate) fn new(environment: &Environment) -> Self {
        let forced = environment.get("CLICOLOR_FORCE").is_some_and(|it| it != "0");
        let refused = environment.get("NO_COLOR").is_some()
            || environment.get("CLICOLOR").is_some_and(|it| it == "0")
            || environment.get("TERM").is_none_or(|it| it == "dumb");
        let color = |terminal: bool| match (forced, refused) {
            (true, _) => Color::On,
            (false, false) if terminal => Color::On,
            (false, _) => Color::Off,
        };
        Self {
            stdout: color(io::stdout().is_terminal()),
            stderr: color(io::stderr().is_terminal()),
            talk: Talk::default(),
            format: Format::default(),
        }
    }

    /// The same, saying as much as `talk` allows.
    pub(crate) fn talking(self, talk: Talk) -> Self {
        Self { talk, ..self }
    }

    /// For those who only have something to tell.
    pub(crate) fn teller(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let printer = self.clone();
        Arc::new(move |what| printer.note(what))
    }

    /// Writes what was asked for to stdout. A reader that went away is no error.
    #[expect(clippy::unused_self, reason = "whoever prints has a printer")]
    pub(crate) fn payload(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::new(Code::System, "could not write to stdout").because(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Something that the user should know.
    pub(crate) fn note(&self, text: &str) {
        if Talk::Normal <= self.talk {
            self.complain(&format!("bulkhead: {text}\n"));
        }
    }

    /// Something that only a curious user wants to know.
    pub(crate) fn detail(&self, text: &str) {
        if Talk::Verbose <= self.talk {
            self.complain(&format!("bulkhead: {text}\n"));
        }
    }

    /// Something that looks like a mistake.
    pub(crate) fn warning(&self, text: &str) {
        if Talk::Normal <= self.talk {
            self.alarm(text);
        }
    }

    /// Something that is said even to those who want quiet.
    pub(crate) fn alarm(&self, text: &str) {
        let word = paint(self.stderr, Paint::Yellow, "warning:");
        self.complain(&format!("bulkhead: {word} {text}\n"));
    }

    /// Whether one line can be drawn over.
    pub(crate) fn can_draw(&self) -> bool {
        Talk::Normal <= self.talk && self.stderr == Color::On && io::stderr().is_terminal()
    }

    /// Draws `line` over the one that was drawn last; an empty one takes it away.
    pub(crate) fn draw(&self, line: &str) {
        self.complain(&format!("\r\x1b[K{line}"));
    }

    /// What Bulkhead could not do.
    pub(crate) fn failure(&self, failure: &Failure, exit: u8) {
        if self.format == Format::Json {
            self.complain(&format!("{}\n", failure.json(exit)));
            return;
        }
        let word = paint(self.stderr, Paint::Red, "error:");
        let code = failure.code.name();
        let mut lines = vec![format!("{word} {} [{code}]\n", failure.what)];
        lines.extend(failure.causes.iter().map(|it| format!("  cause: {it}\n")));
        let word = paint(self.stderr, Paint::Green, "hint:");
        lines.extend(failure.hints.iter().map(|it| format!("  {word} {it}\n")));
        self.complain(&lines.concat());
    }

    /// What the command line's parser says: help to stdout, mistakes to stderr.
    pub(crate) fn usage(&self, error: &clap::Error) -> Result<(), Failure> {
        let render = |color| match color {
            Color::On => error.render().ansi().to_string(),
            Color::Off => error.render().to_string(),
        };
        if error.use_stderr() {
            self.complain(&render(self.stderr));
            return Ok(());
        }
        self.payload(&render(self.stdout))
    }

    /// `text` in a colour, if stdout shows any.
    pub(crate) fn painted(&self, color: Paint, text: &str) -> String {
        paint(self.stdout, color, text)
    }

    #[expect(clippy::unused_self, reason = "whoever prints has a printer")]
    fn complain(&self, text: &str) {
        // There is nobody left to tell if stderr is gone.
        io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default();
    }
}

fn paint(color: Color, paint: Paint, text: &str) -> String {
    let code = match paint {
        Paint::Green => "32",
        Paint::Yellow => "33",
        Paint::Red => "31",
        Paint::Bold => "1",
    };
    match color {
        Color::On => format!("\x1b[{code}m{text}\x1b[0m"),
        Color::Off => text.to_owned(),
    }
}
