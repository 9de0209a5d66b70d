//! Shares of processors.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many processors a sandbox may keep busy, in thousandths: `1.5` is 1500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus {
    millis: u32,
}

/// A text that is not a number of processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a number of CPUs; write one from 0.01 to 4096, such as `1.5`", crate::escape(.0)
)]
pub struct InvalidCpus(String);

impl Cpus {
    const LEAST: u32 = 10;
    const MOST: u32 = 4_096_000;

    /// From thousandths of a processor.
    pub fn from_millis(millis: u32) -> Result<Self, InvalidCpus> {
        if (Self::LEAST..=Self::MOST).contains(&millis) {
            Ok(Self { millis })
        } else {
            Err(InvalidCpus(format!("{}.{:03}", millis / 1000, millis % 1000)))
        }
    }

    /// In thousandths of a processor.
    pub fn millis(self) -> u32 {
        self.millis
    }
}

impl FromStr for Cpus {
    type Err = InvalidCpus;

    fn from_str(text: &str) -> Result<Self, InvalidCpus> {
        let invalid = || InvalidCpus(text.to_owned());
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let plain = |part: &str| part.len() <= 4 && part.bytes().all(|it| it.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || fraction.len() > 3 || text.trim().is_empty() {
            return Err(invalid());
        }
        let whole: u32 =
            if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let millis: u32 = format!("{fraction:0<3}").parse().map_err(|_| invalid())?;
        Self::from_millis(whole * 1000 + millis).map_err(|_| invalid())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.millis / 1000, self.millis % 1000);
        out.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(f64::from(self.millis) / 1000.0)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number of CPUs such as 2 or 1.5")]
        enum Form {
            Whole(u32),
            Fraction(f64),
            Text(String),
        }
        let text = match Form::deserialize(from)? {
            Form::Whole(number) => number.to_string(),
            Form::Fraction(number) => number.to_string(),
            Form::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}
