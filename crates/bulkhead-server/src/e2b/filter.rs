//! Which rooms a list is about, and which page of it.

use std::{collections::BTreeMap, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::error::ApiError;
use crate::{clock, house::Tenant};

/// The most rooms on a page.
const PAGE: usize = 100;

/// What a list is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    metadata: BTreeMap<String, String>,
    running: Option<bool>,
    template: Option<String>,
    started_after: Option<SystemTime>,
    oldest_first: bool,
    limit: usize,
    after: Option<(u64, String)>,
}

impl Filter {
    /// Reads the query of a request.
    pub(crate) fn read(query: &[(String, String)]) -> Result<Self, ApiError> {
        let mut filter = Self { limit: PAGE, ..Self::default() };
        let mut states: Vec<&str> = Vec::new();
        for (name, value) in query {
            match name.as_str() {
                "metadata" => filter.metadata = metadata(value),
                "state" => states.extend(value.split(',')),
                "template" => filter.template = Some(value.clone()),
                "order" => filter.oldest_first = value == "asc",
                "startedAfter" => {
                    let at = clock::parse(value);
                    let at = at.ok_or_else(|| ApiError::new(400, "invalid startedAfter"))?;
                    filter.started_after = Some(at);
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|it| (1..=PAGE).contains(it));
                    filter.limit = limit.ok_or_else(|| ApiError::new(400, "invalid limit"))?;
                }
                "nextToken" => {
                    let after = position(value);
                    filter.after =
                        Some(after.ok_or_else(|| ApiError::new(400, "invalid nextToken"))?);
                }
                _ => {}
            }
        }
        filter.running = match (states.contains(&"running"), states.contains(&"paused")) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (true, true) | (false, false) => None,
        };
        Ok(filter)
    }

    fn takes(&self, tenant: &Tenant) -> bool {
        let facts = &tenant.facts;
        let told = |(key, value): (&String, &String)| facts.metadata.get(key) == Some(value);
        self.metadata.iter().all(told)
            && self.running.is_none_or(|running| running != tenant.is_paused())
            && self.template.as_ref().is_none_or(|it| *it == facts.template)
            && self.started_after.is_none_or(|after| after <= facts.started_at())
    }

    /// One page of `tenants`, and where the next one begins.
    pub(crate) fn page<'a, T: AsRef<Tenant>>(
        &self,
        tenants: &'a [T],
    ) -> (Vec<&'a Tenant>, Option<String>) {
        let key = |it: &Tenant| (it.facts.started, it.id.clone());
        let mut taken: Vec<&Tenant> =
            tenants.iter().map(AsRef::as_ref).filter(|it| self.takes(it)).collect();
        taken.sort_by_key(|it| key(it));
        if !self.oldest_first {
            taken.reverse();
        }
        let behind = |it: &Tenant, after: &(u64, String)| {
            if self.oldest_first { *after < key(it) } else { key(it) < *after }
        };
        if let Some(after) = &self.after {
            taken.retain(|it| behind(it, after));
        }
        let more = self.limit < taken.len();
        taken.truncate(self.limit);
        let next = taken.last().filter(|_| more).map(|it| token(it));
        (taken, next)
    }
}

fn token(tenant: &Tenant) -> String {
    URL_SAFE_NO_PAD.encode(format!("{} {}", tenant.facts.started, tenant.id))
}

fn position(token: &str) -> Option<(u64, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (started, id) = text.split_once(' ')?;
    Some((started.parse().ok()?, id.to_owned()))
}

/// A query within the query, whose words are encoded once more.
fn metadata(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|it| !it.is_empty());
    let pairs = pairs.map(|it| it.split_once('=').unwrap_or((it, "")));
    pairs.map(|(key, value)| (twice(key), twice(value))).collect()
}

fn twice(text: &str) -> String {
    decoded(&decoded(text))
}

/// `%20` and the like read as what they stand for; `+` is a space.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (*first, after) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                (None, _) | (_, None) => (b'%', rest.get(1..).unwrap_or_default()),
            },
            (b'+', after) => (b' ', after),
            (other, after) => (other, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

/// The pairs of a query, decoded.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|it| !it.is_empty());
    let pairs = pairs.map(|it| it.split_once('=').unwrap_or((it, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_encoded_three_times() {
        let query = pairs("metadata=a%252520b%3Dc");
        let [(name, value)] = query.as_slice() else { panic!("{query:?}") };
        assert_eq!(name, "metadata");
        let expected = BTreeMap::from([("a b".to_owned(), "c".to_owned())]);
        assert_eq!(metadata(value), expected);
    }

    #[test]
    fn what_is_not_encoded_stays() {
        assert_eq!(decoded("100%+x%zz%4"), "100% x%zz%4");
    }
}
