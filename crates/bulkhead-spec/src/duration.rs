//! Lengths of time, as people write them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time. Written `90s`, `5m`, `1h30m` or `250ms`, the larger unit first; a bare number
/// is seconds. A text can say up to 36500 days, so that a deadline never overflows the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// A text that is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a length of time; write one such as `90s`, `5m` or `1h30m`", crate::escape(.0))]
pub struct InvalidDuration(String);

/// The units, largest first, in milliseconds.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const MOST: Duration = Duration::from_hours(24 * 36_500);

impl FromStr for Span {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        parse(text.trim()).map(Self).ok_or_else(|| InvalidDuration(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    if text.bytes().all(|it| it.is_ascii_digit()) {
        return bounded(Duration::from_secs(text.parse().ok()?));
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total = 0_u128;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|it: char| it.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        // Only the units that are left: `5s5s` and `5s1h` are slips, not sums.
        let (_, millis) = units.find(|(name, _)| *name == unit)?;
        total = total.checked_add(u128::from(number.parse::<u64>().ok()?) * millis)?;
        rest = next;
    }
    bounded(Duration::from_millis(u64::try_from(total).ok()?))
}

fn bounded(length: Duration) -> Option<Duration> {
    (length <= MOST).then_some(length)
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_millis();
        if left == 0 {
            return out.write_str("0s");
        }
        for (name, millis) in UNITS {
            if left >= millis {
                write!(out, "{}{name}", left / millis)?;
                left %= millis;
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
            Whole(u64),
            Fraction(f64),
            Text(String),
        }
        let (length, said) = match Form::deserialize(from)? {
            Form::Text(text) => return text.parse().map_err(de::Error::custom),
            Form::Whole(seconds) => (Some(Duration::from_secs(seconds)), seconds.to_string()),
            Form::Fraction(seconds) => {
                (Duration::try_from_secs_f64(seconds).ok(), seconds.to_string())
            }
        };
        let length = length.and_then(bounded);
        length.map(Self).ok_or_else(|| de::Error::custom(InvalidDuration(said)))
    }
}
