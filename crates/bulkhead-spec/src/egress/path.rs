//! The path of a request, and rules about it.
//!
//! Servers differ in how they decode a path. So a rule compares only paths that every server
//! reads in the same way, and whatever could be read in two is refused.

use std::{fmt, str::FromStr};

use crate::escape;

/// The path of a request in the one way to read it, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath(String);

/// A path that two servers could read differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path `{}` can be read in more than one way", escape(.0))]
pub struct AmbiguousPath(String);

/// `/repos/me/**`: `*` stands for anything within one segment, a last `**` for any rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern {
    segments: Vec<String>,
    rest: bool,
}

/// A text that is no pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no pattern of paths: plain segments, `*` within one, and `**` as the last",
    escape(.0)
)]
pub struct InvalidPathPattern(String);

impl FromStr for RequestPath {
    type Err = AmbiguousPath;

    /// Reads the path of a request target; a query is left out.
    fn from_str(target: &str) -> Result<Self, AmbiguousPath> {
        let ambiguous = || AmbiguousPath(target.to_owned());
        let path = target.split('?').next().unwrap_or_default();
        if !path.starts_with('/') {
            return Err(ambiguous());
        }
        let decoded = decode(path).ok_or_else(ambiguous)?;
        let odd = |segment: &str| {
            // A server that strips parameters reads `..;x` as `..`.
            let name = segment.split(';').next().unwrap_or_default();
            name == "." || name == ".." || (name.is_empty() && !segment.is_empty())
        };
        let mut segments = decoded.split('/').skip(1);
        if decoded.contains("//") || segments.any(odd) {
            return Err(ambiguous());
        }
        Ok(Self(decoded))
    }
}

/// Decodes what means the same either way; `None` where an escape hides something.
fn decode(path: &str) -> Option<String> {
    let mut decoded = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            let plain =
                byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'"' | b'<' | b'>');
            if !plain {
                return None;
            }
            decoded.push(char::from(byte));
            continue;
        }
        let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
        let value = high << 4 | low;
        match value {
            b'-' | b'_' | b'~' => decoded.push(char::from(value)),
            it if it.is_ascii_alphanumeric() => decoded.push(char::from(it)),
            b'.' | b'/' | b'\\' | b'%' | b';' | 0..=0x1f | 0x7f => return None,
            it => {
                use fmt::Write;
                write!(decoded, "%{it:02X}").ok()?;
            }
        }
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

impl RequestPath {
    /// The path, decoded as far as that is safe.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PathPattern {
    /// Whether `path` is one of those meant.
    pub fn matches(&self, path: &RequestPath) -> bool {
        let mut asked = path.0.split('/').skip(1);
        for segment in &self.segments {
            match asked.next() {
                Some(it) if glob(segment.as_bytes(), it.as_bytes()) => {}
                Some(_) | None => return false,
            }
        }
        self.rest || asked.next().is_none()
    }
}

/// Whether `text` is `pattern` with anything for each `*`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => {
            (0..=text.len()).any(|at| text.get(at..).is_some_and(|it| glob(rest, it)))
        }
        Some((first, rest)) => {
            text.split_first().is_some_and(|(it, text)| it == first && glob(rest, text))
        }
    }
}

impl FromStr for PathPattern {
    type Err = InvalidPathPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPathPattern> {
        let invalid = || InvalidPathPattern(text.to_owned());
        let path = text.strip_prefix('/').ok_or_else(invalid)?;
        let mut segments: Vec<_> = path.split('/').map(str::to_owned).collect();
        let rest = segments.last().is_some_and(|it| it == "**");
        if rest {
            segments.pop();
        }
        // Two stars in a segment could take long to compare, and say nothing that one does not.
        let stars = |it: &String| it.bytes().filter(|it| *it == b'*').count();
        let plain = text.replace('*', "x");
        if segments.iter().any(|it| stars(it) > 1)
            || plain.contains('?')
            || plain.parse::<RequestPath>().map_err(|_| invalid())?.0 != plain
        {
            return Err(invalid());
        }
        Ok(Self { segments, rest })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            write!(out, "/{segment}")?;
        }
        if self.rest { out.write_str("/**") } else { Ok(()) }
    }
}
