//! Headers that the gateway sets on requests of a room, by the words of E2B's clients.

use std::collections::BTreeMap;

use bulkhead_spec::{HostPattern, Secret, SetHeader};
use serde::Deserialize;

use super::{error::ApiError, secrets::refused};
use crate::secrets::Secrets;

/// The most hosts that can have headers.
const HOSTS: usize = 10;
/// What stands for a secret in a header.
const BEGIN: &str = "${e2b.secrets.";

/// What is done to requests, by host.
pub(crate) type Rules = BTreeMap<String, Vec<Rule>>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(default)]
    transform: Transform,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transform {
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// A header that is to be set.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) host: HostPattern,
    pub(crate) set: SetHeader,
    pub(crate) value: Secret,
}

/// The headers that `rules` set, with the values of the secrets that they name.
pub(crate) fn headers(rules: &Rules, secrets: &Secrets) -> Result<Vec<Header>, ApiError> {
    let odd = |message: String| ApiError::new(400, message);
    if HOSTS < rules.len() {
        return Err(odd(format!("at most {HOSTS} hosts can have network rules")));
    }
    let mut all = Vec::new();
    for (host, rules) in rules {
        let pattern: HostPattern =
            host.parse().map_err(|error| odd(format!("network.rules: {error}")))?;
        if pattern.public_suffix().is_some() {
            return Err(odd(format!("network.rules: `{host}` is for hosts of anybody")));
        }
        if 1 < rules.len() {
            return Err(odd(format!("network.rules: one transform for `{host}`, not more")));
        }
        for (name, template) in rules.iter().flat_map(|it| &it.transform.headers) {
            // The grammar of headers that a secret may be set in is the same.
            let probe = format!("H@{}#{name}", "a.example");
            let header = probe.parse::<bulkhead_spec::SecretBinding>().ok();
            let header = header.and_then(|it| it.header);
            let set = header.ok_or_else(|| odd(format!("`{name}` cannot be set")))?;
            let value = filled(template, secrets)?;
            all.push(Header { host: pattern.clone(), set, value });
        }
    }
    Ok(all)
}

/// `template` with the values of secrets in their places.
fn filled(template: &str, secrets: &Secrets) -> Result<Secret, ApiError> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| ApiError::new(400, "a placeholder has no end".to_owned()))?;
        let value = secrets.value(name).map_err(|error| refused(&error))?;
        let value =
            value.ok_or_else(|| ApiError::new(400, format!("secret '{name}' not found")))?;
        text.push_str(before);
        text.push_str(value.expose());
        rest = after;
    }
    text.push_str(rest);
    if text.contains("${e2b.") {
        return Err(ApiError::new(400, "this server gives no workload tokens"));
    }
    if text.is_empty() || text.contains(|it: char| it.is_control()) {
        return Err(ApiError::new(400, "a header has a value of one line"));
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(rules: Value) -> Result<Vec<(String, String)>, u16> {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::at(&dir.path().join("secrets.json"));
        secrets.create("key", "VALUE", BTreeMap::new()).unwrap();
        let rules: Rules = serde_json::from_value(rules).unwrap();
        let headers = headers(&rules, &secrets).map_err(|it| it.status())?;
        let told = |it: Header| (it.set.name, it.value.expose().to_owned());
        Ok(headers.into_iter().map(told).collect())
    }

    #[test]
    fn secrets_stand_where_their_placeholders_stood() {
        let rules = json!({ "api.example.com": [{ "transform": { "headers": {
            "Authorization": "Bearer ${e2b.secrets.key}", "X-Plain": "yes" } } }] });
        let expected = [("Authorization", "Bearer VALUE"), ("X-Plain", "yes")];
        let expected = expected.map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(of(rules).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_filled_or_set_is_refused() {
        let one = |host: &str, name: &str, value: &str| json!({ host: [{ "transform": { "headers": { name: value } } }] });
        let odd = [
            one("api.example.com", "X", "${e2b.secrets.other}"),
            one("api.example.com", "X", "${e2b.secrets.key"),
            one("api.example.com", "X", "${e2b.identity.tokens.aws}"),
            one("api.example.com", "X", "a\r\nY: b"),
            one("api.example.com", "Host", "evil"),
            one("api.example.com", "X Y", "a"),
            one("*.com", "X", "a"),
            one("no host", "X", "a"),
        ];
        for rules in odd {
            assert_eq!(of(rules.clone()).unwrap_err(), 400, "{rules}");
        }
    }
}
