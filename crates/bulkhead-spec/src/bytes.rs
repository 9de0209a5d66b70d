//! Amounts of memory, disk and output.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

/// A number of bytes. Written `512m` or `1.5GiB`; units are powers of 1024, as Docker's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Bytes(pub u64);

/// A text that is not an amount of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a size; write a number and a unit, such as `512m` or `2g`", crate::escape(.0))]
pub struct InvalidBytes(String);

const UNITS: [(&str, u64); 5] =
    [("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

impl FromStr for Bytes {
    type Err = InvalidBytes;

    fn from_str(text: &str) -> Result<Self, InvalidBytes> {
        parse(text).map(Self).ok_or_else(|| InvalidBytes(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at_checked(split)?;
    let scale = scale(unit.trim())?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let (whole, fraction) = number.split_once('.')?;
    // There is no part of a byte: `1.5` was meant to have a unit.
    if scale == 1 || fraction.is_empty() || fraction.len() > 6 || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let parts = u128::from(fraction.parse::<u64>().ok()?);
    let tenths = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_add(u64::try_from(parts * u128::from(scale) / tenths).ok()?)
}

fn scale(unit: &str) -> Option<u64> {
    if matches!(unit, "" | "byte" | "bytes") {
        return Some(1);
    }
    UNITS.iter().find_map(|&(letter, scale)| {
        let rest = unit.strip_prefix(letter)?;
        let known = rest.is_empty() || (letter != "b" && matches!(rest, "b" | "ib"));
        known.then_some(scale)
    })
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, scale) = match self.0 {
            1 => return out.write_str("1 byte"),
            0..1024 => return write!(out, "{} bytes", self.0),
            1024..0x10_0000 => ("KiB", 1_u64 << 10),
            0x10_0000..0x4000_0000 => ("MiB", 1 << 20),
            0x4000_0000.. => ("GiB", 1 << 30),
        };
        if self.0.is_multiple_of(scale) {
            return write!(out, "{} {name}", self.0 / scale);
        }
        let tenths = u128::from(self.0) * 10 / u128::from(scale);
        write!(out, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a size such as `512m`, or a number of bytes")]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Number(number) => Ok(Self(number)),
            Form::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}
