//! Lengths of time, as people write them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time. Written `90s`, `5m`, `1h30m` or `250ms`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// A text that is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a length of time; write one such as `90s`, `5m` or `1h30m`", crate::escape(.0))]
pub struct InvalidDuration(String);

impl FromStr for Span {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        parse(text.trim()).map(Self).ok_or_else(|| InvalidDuration(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|it: char| it.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            "d" => Duration::from_hours(24),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number.parse().ok()?)?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.subsec_millis();
        let seconds = self.0.as_secs();
        if millis != 0 || seconds == 0 {
            return if seconds == 0 {
                write!(out, "{millis}ms")
            } else {
                write!(out, "{seconds}.{millis:03}s")
            };
        }
        for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
            let part = match name {
                "d" => seconds / unit,
                "h" => seconds % 86_400 / unit,
                "m" => seconds % 3_600 / unit,
                _ => seconds % 60,
            };
            if part != 0 {
                write!(out, "{part}{name}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a length of time such as `5m`, or a number of seconds")]
        enum Form {
            Seconds(u32),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Seconds(seconds) => Ok(Self(Duration::from_secs(seconds.into()))),
            Form::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}
