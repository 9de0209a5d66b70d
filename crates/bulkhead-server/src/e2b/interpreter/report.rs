//! What a supervisor says. It is inside the room, so all of this may be lies.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest line that is taken.
pub(super) const LONGEST: usize = 17 << 20;

/// Something that a supervisor said of one slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Of which life of a context.
    pub(super) slot: u64,
    /// In which piece, if in one.
    pub(super) run: Option<u64>,
    /// What it costs of the credit.
    pub(super) cost: u64,
    pub(super) what: What,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// The slot is there.
    Opened,
    /// It cannot be had, for a reason.
    Failed(String),
    /// Its process has ended, so.
    Died(String),
    /// The piece wrote something.
    Out(String),
    /// The piece complained.
    Err(String),
    /// The piece wrote more than it may, and the rest is dropped.
    Dropped,
    /// The piece is the so-manieth of its context.
    Count(u64),
    /// The piece shows something, in several forms by their MIME types.
    Shown(Map<String, Value>, Standing),
    /// The piece failed.
    Fault(Fault),
    /// The piece is over.
    Done,
    /// What there is.
    Hello(Hello),
}

/// Whether something is what a piece comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The value of its last line.
    Main,
    /// Shown on the way.
    Aside,
}

/// How a piece failed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) traceback: String,
}

/// What a supervisor has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Hello {
    #[serde(default)]
    pub(super) living: Vec<Living>,
    #[serde(default)]
    pub(super) languages: Vec<String>,
}

/// A context that lives already.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Living {
    pub(super) slot: u64,
    pub(super) id: String,
    pub(super) language: String,
    pub(super) cwd: String,
    pub(super) usual: bool,
    pub(super) busy: bool,
}

/// A line, as it is written.
#[derive(Deserialize)]
struct Line {
    slot: u64,
    run: Option<u64>,
    #[serde(default)]
    cost: u64,
    opened: Option<bool>,
    failed: Option<String>,
    died: Option<String>,
    out: Option<String>,
    err: Option<String>,
    dropped: Option<bool>,
    hello: Option<Hello>,
    message: Option<Message>,
}

/// What the context itself said.
#[derive(Deserialize)]
struct Message {
    count: Option<u64>,
    result: Option<Map<String, Value>>,
    #[serde(default)]
    main: bool,
    error: Option<Fault>,
    done: Option<bool>,
}

/// A line of a supervisor, if it makes sense.
pub(super) fn read(line: &[u8]) -> Option<Report> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let Line { slot, run, cost, .. } = line;
    let own = line
        .opened
        .map(|_| What::Opened)
        .or(line.failed.map(What::Failed))
        .or(line.died.map(What::Died))
        .or(line.out.map(What::Out))
        .or(line.err.map(What::Err))
        .or(line.dropped.map(|_| What::Dropped))
        .or(line.hello.map(What::Hello));
    let what = own.or_else(|| line.message.and_then(said))?;
    Some(Report { slot, run, cost, what })
}

fn said(message: Message) -> Option<What> {
    let standing = if message.main { Standing::Main } else { Standing::Aside };
    message
        .count
        .map(What::Count)
        .or(message.result.map(|it| What::Shown(it, standing)))
        .or(message.error.map(What::Fault))
        .or(message.done.map(|_| What::Done))
}

/// Puts lines together from bytes as they come; one that is too long is an error.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

/// A line is longer than any that makes sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// The lines that are whole after `bytes`.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut whole = Vec::new();
        let mut parts = bytes.split(|it| *it == b'\n');
        let mut part = parts.next().unwrap_or_default();
        for next in parts {
            self.rest.extend_from_slice(part);
            whole.push(std::mem::take(&mut self.rest));
            part = next;
        }
        self.rest.extend_from_slice(part);
        if LONGEST < self.rest.len() || whole.iter().any(|it| LONGEST < it.len()) {
            return Err(TooLong);
        }
        Ok(whole)
    }
}

/// Reads what a supervisor says, for a fuzzer.
pub(crate) fn check(bytes: &[u8]) {
    let mut lines = Lines::default();
    for piece in bytes.chunks(61) {
        let Ok(whole) = lines.take(piece) else { return };
        for report in whole.iter().filter_map(|it| read(it)) {
            if let What::Shown(forms, standing) = report.what {
                super::lines::shown(forms, standing);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(line: &str) -> Option<What> {
        read(line.as_bytes()).map(|it| it.what)
    }

    #[test]
    fn reports_are_read_and_nonsense_is_not() {
        let out = read(br#"{"slot":3,"run":7,"cost":2,"out":"hi"}"#).unwrap();
        assert_eq!(
            out,
            Report { slot: 3, run: Some(7), cost: 2, what: What::Out("hi".to_owned()) }
        );
        assert_eq!(
            what(r#"{"slot":3,"died":"signal 9"}"#),
            Some(What::Died("signal 9".into()))
        );
        let shown = what(r#"{"slot":1,"message":{"result":{"text/plain":"2"},"main":true}}"#);
        let forms = Map::from_iter([("text/plain".to_owned(), Value::from("2"))]);
        assert_eq!(shown, Some(What::Shown(forms, Standing::Main)));
        assert_eq!(what(r#"{"slot":1,"message":{"done":true}}"#), Some(What::Done));
        for nonsense in [
            "",
            "null",
            "[]",
            "{}",
            "{\"slot\":1}",
            "{\"slot\":-1,\"out\":\"x\"}",
            "{\"slot\":1,\"out\":7}",
            "{\"slot\":1,\"message\":{\"error\":{\"name\":1}}}",
            "{\"slot\":1,\"message\":{\"nothing\":true}}",
            "{\"slot\":1,\"out\":\"half",
        ] {
            assert_eq!(what(nonsense), None, "{nonsense}");
        }
        let deep =
            format!("{{\"slot\":1,\"message\":{{\"result\":{{\"a\":{}", "[".repeat(4096));
        assert_eq!(what(&deep), None);
    }

    #[test]
    fn lines_are_put_together_and_bounded() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"one\ntw").unwrap(), [b"one".to_vec()]);
        assert_eq!(lines.take(b"o\n\nthree\n").unwrap(), [&b"two"[..], b"", b"three"]);
        let chunk = vec![b'x'; 1 << 20];
        let ended = (0..=17).map(|_| lines.take(&chunk)).find(Result::is_err);
        assert_eq!(ended, Some(Err(TooLong)));
    }
}
