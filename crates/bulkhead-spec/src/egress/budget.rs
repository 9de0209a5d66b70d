//! How much may be spent, and where.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Host, HostName, HostPattern, InvalidHost, Rule, Target, groups};
use crate::{Bytes, escape};

/// `TARGET=LIMIT[,LIMIT…]`: a group, a pattern of hosts or `*`, and one or more of `10MiB`,
/// `500requests`, `200000tokens`, `$5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// What it is called: the group, or the pattern.
    pub name: String,
    /// Which hosts it covers; none means all.
    pub hosts: Vec<HostPattern>,
    /// Bytes, both ways.
    pub bytes: Option<Bytes>,
    /// Requests, or connections where requests are not read.
    pub requests: Option<u64>,
    /// Tokens of a model, both ways.
    pub tokens: Option<u64>,
    /// Money for a model.
    pub money: Option<Money>,
}

/// An amount of money in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u64);

/// What was spent of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Of which one.
    pub budget: String,
    /// Bytes, both ways.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Tokens.
    pub tokens: u64,
    /// Money, as far as the prices of the models are known.
    #[serde(rename = "dollars")]
    pub money: Money,
}

/// A text that is no budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBudget {
    /// It has no limit.
    #[error("`{}` has no limit: write `TARGET=LIMIT`, as in `anthropic=$5`", escape(.0))]
    NoLimit(String),
    /// A limit that is none.
    #[error("`{}` is no limit: write `10MiB`, `500requests`, `200000tokens` or `$5`", escape(.0))]
    Limit(String),
    /// Its host.
    #[error(transparent)]
    Host(#[from] InvalidHost),
}

impl Budget {
    /// Whether what passes to `host` counts.
    pub fn covers(&self, host: &Host) -> bool {
        let among = |name: &HostName| self.hosts.iter().any(|it| it.matches(name));
        self.hosts.is_empty() || host.name().is_some_and(among)
    }

    /// Whether it counts what only somebody who reads the answers of a model knows.
    pub fn is_about_models(&self) -> bool {
        self.tokens.is_some() || self.money.is_some()
    }

    /// How much of it `spent` is, in hundredths; 100 and more is all of it.
    pub fn share(&self, spent: &Spent) -> u64 {
        let share = |spent: u64, limit: Option<u64>| match limit {
            None => 0,
            Some(0) => 100,
            Some(limit) => spent.saturating_mul(100) / limit,
        };
        share(spent.bytes, self.bytes.map(|Bytes(it)| it))
            .max(share(spent.requests, self.requests))
            .max(share(spent.tokens, self.tokens))
            .max(share(spent.money.0, self.money.map(|Money(it)| it)))
    }
}

impl FromStr for Budget {
    type Err = InvalidBudget;

    fn from_str(text: &str) -> Result<Self, InvalidBudget> {
        let (name, limits) =
            text.split_once('=').ok_or_else(|| InvalidBudget::NoLimit(text.to_owned()))?;
        let hosts = match groups::group(name) {
            Some(group) => group.hosts.iter().filter_map(|it| names_of(it)).collect(),
            None if name == "*" => Vec::new(),
            None => vec![name.parse()?],
        };
        let mut budget = Self { name: name.to_owned(), hosts, ..Self::default() };
        for limit in limits.split(',') {
            budget.set(limit.trim()).ok_or_else(|| InvalidBudget::Limit(limit.to_owned()))?;
        }
        Ok(budget)
    }
}

fn names_of(rule: &str) -> Option<HostPattern> {
    match rule.parse::<Rule>().ok()?.target {
        Target::Names(pattern) => Some(pattern),
        Target::Addresses(_) => None,
    }
}

impl Budget {
    fn set(&mut self, limit: &str) -> Option<()> {
        if let Some(dollars) = limit.strip_prefix('$') {
            self.money = Some(dollars.parse().ok()?);
        } else if let Some(count) = limit.strip_suffix("tokens") {
            self.tokens = Some(count.trim().parse().ok()?);
        } else if let Some(count) = limit.strip_suffix("requests") {
            self.requests = Some(count.trim().parse().ok()?);
        } else {
            self.bytes = Some(limit.parse().ok()?);
        }
        Some(())
    }
}

impl FromStr for Money {
    type Err = InvalidBudget;

    fn from_str(text: &str) -> Result<Self, InvalidBudget> {
        let invalid = || InvalidBudget::Limit(text.to_owned());
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
        if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
            return Err(invalid());
        }
        let whole: u64 = whole.parse().map_err(|_| invalid())?;
        let part: u64 = format!("{part:0<6}").parse().map_err(|_| invalid())?;
        whole
            .checked_mul(1_000_000)
            .and_then(|it| it.checked_add(part))
            .map(Self)
            .ok_or_else(invalid)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let part = format!("{part:06}");
        let kept = part.trim_end_matches('0');
        write!(out, "${whole}.{kept:0<2}")
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact up to nine thousand million dollars"
        )]
        to.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.bytes.map(|it| format!("{}", it.0)),
            self.requests.map(|it| format!("{it}requests")),
            self.tokens.map(|it| format!("{it}tokens")),
            self.money.map(|it| it.to_string()),
        ];
        let limits: Vec<_> = limits.into_iter().flatten().collect();
        write!(out, "{}={}", self.name, limits.join(","))
    }
}

impl Serialize for Budget {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
