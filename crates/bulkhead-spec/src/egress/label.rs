//! Names of private networks and of those in them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One part of a host name: what a private network is called, or a sandbox in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

/// A text that is no part of a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` cannot be part of a host name: up to 32 small letters, digits and `-`, beginning with a \
     letter and ending with a letter or a digit",
    crate::escape(.0)
)]
pub struct InvalidLabel(pub String);

/// Longer ones are not needed, and host names are of several.
const LONGEST: usize = 32;

impl Label {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        let fine = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        let begins = text.bytes().next().is_some_and(|it| it.is_ascii_lowercase());
        // Loopback has this name everywhere.
        let taken = text == "localhost";
        if !begins
            || LONGEST < text.len()
            || !text.bytes().all(fine)
            || text.ends_with('-')
            || taken
        {
            return Err(InvalidLabel(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Label {
    type Error = InvalidLabel;

    fn try_from(text: String) -> Result<Self, InvalidLabel> {
        text.parse()
    }
}

impl From<Label> for String {
    fn from(label: Label) -> Self {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Label;

    #[test]
    fn a_label_is_part_of_a_host_name_in_one_spelling() {
        for fine in ["db", "a", "web-1", "bh-0123456789abcdef"] {
            assert_eq!(fine.parse::<Label>().unwrap().as_str(), fine);
        }
        let long = "x".repeat(33);
        for odd in ["", "1", "Db", "a.b", "a_b", "-a", "a-", "a b", "localhost", "ä", &long] {
            assert!(odd.parse::<Label>().is_err(), "{odd}");
        }
    }
}
