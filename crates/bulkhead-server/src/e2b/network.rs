//! What a sandbox may reach, in the words of E2B's clients, as rules of the gateway.
//!
//! E2B opens the world and lets a client close it; here it is closed and a client may open it, as
//! far as the server's own configuration lets it. Where the two differ, the stricter holds: what a
//! client denies is denied though it also allows it.

use bulkhead_engine::way_out::Ask;
use bulkhead_spec::{Network, Preset, Sourced, Spec, allowing, denying};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{error::ApiError, transforms};

/// Who said a rule that a client of this server said.
const ORIGIN: &str = "the sandbox's client";

/// Every address there is.
const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// What a client says about the network of its sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wish {
    #[serde(rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    pub(crate) internet: Option<bool>,
    #[serde(default)]
    pub(crate) allow_out: Vec<String>,
    #[serde(default)]
    pub(crate) deny_out: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allow_public_traffic: Option<bool>,
    #[serde(default, skip_serializing)]
    pub(crate) rules: Option<transforms::Rules>,
    #[serde(default, skip_serializing)]
    egress_proxy: Option<Value>,
    #[serde(default, skip_serializing)]
    dns_servers: Option<Vec<String>>,
    #[serde(default, skip_serializing)]
    mask_request_host: Option<Value>,
    #[serde(default, skip_serializing)]
    https_ports: Option<Value>,
}

/// Rules for the gateway.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) allow: Vec<Sourced>,
    pub(crate) deny: Vec<Sourced>,
}

impl Wish {
    /// Whether the client said anything that changes what a room may reach.
    fn says_something(&self) -> bool {
        self.internet.is_some() || !self.allow_out.is_empty() || !self.deny_out.is_empty()
    }

    /// Whether everything is closed but for what is named.
    fn closes(&self) -> bool {
        let everything = |it: &String| EVERYTHING.contains(&it.as_str());
        self.internet == Some(false) || self.deny_out.iter().any(everything)
    }

    /// What of it this server cannot do is refused by its name.
    fn check(&self) -> Result<(), ApiError> {
        let asked = [
            (self.egress_proxy.as_ref().is_some_and(is_something), "egressProxy"),
            (self.dns_servers.as_ref().is_some_and(|it| !it.is_empty()), "dnsServers"),
            (self.mask_request_host.as_ref().is_some_and(is_something), "maskRequestHost"),
            (self.https_ports.as_ref().is_some_and(is_something), "httpsPorts"),
        ];
        match asked.into_iter().find(|(asked, _)| *asked) {
            Some((_, name)) => {
                let message = format!("this server cannot hold `network.{name}` of a sandbox");
                Err(ApiError::new(400, message))
            }
            None => Ok(()),
        }
    }

    /// The rules that it means.
    pub(crate) fn rules(&self) -> Result<Rules, ApiError> {
        self.check()?;
        let names = |it: &&String| !is_range(it);
        if !self.closes() && self.allow_out.iter().any(|it| names(&it)) {
            let message = "domains in allowOut need 0.0.0.0/0 in denyOut, \
                           or everything else could be reached too";
            return Err(ApiError::new(400, message));
        }
        let mut allow = if self.closes() { Vec::new() } else { Preset::Open.allow() };
        let mut deny = if self.closes() { Vec::new() } else { Preset::Open.deny() };
        for text in &self.allow_out {
            // Their star stands for any depth.
            let text = text.strip_prefix("*.").map_or(text.clone(), |it| format!("**.{it}"));
            allow.extend(allowing(&text, ORIGIN).map_err(|error| refused(&error))?);
        }
        for text in self.deny_out.iter().filter(|it| !EVERYTHING.contains(&it.as_str())) {
            if !is_range(text) {
                let message =
                    format!("denyOut takes addresses and ranges, and `{text}` is none");
                return Err(ApiError::new(400, message));
            }
            deny.extend(denying(text, ORIGIN).map_err(|error| refused(&error))?);
        }
        for sourced in allow.iter_mut().chain(&mut deny) {
            ORIGIN.clone_into(&mut sourced.origin);
        }
        Ok(Rules { allow, deny })
    }

    /// Makes `spec` what the client wants; a client that says nothing gets what the server has.
    pub(crate) fn apply(&self, spec: &mut Spec) -> Result<(), ApiError> {
        self.check()?;
        if !self.says_something() {
            return Ok(());
        }
        let Rules { allow, deny } = self.rules()?;
        spec.network = if allow.is_empty() { Network::None } else { Network::Proxy };
        spec.egress.allow = allow;
        spec.egress.deny.extend(deny);
        Ok(())
    }

    /// Whether the ports of the room are for those who have its token.
    pub(crate) fn hides_ports(&self) -> bool {
        self.allow_public_traffic == Some(false)
    }

    /// Whether nothing is asked for that a room without a network does not have.
    pub(crate) fn opens_nothing(&self) -> bool {
        self.closes() && self.allow_out.is_empty()
    }

    /// How a room that has a gateway is told.
    pub(crate) fn ask(&self) -> Result<Ask, ApiError> {
        if self.rules.as_ref().is_some_and(|it| !it.is_empty()) {
            let message = "header transforms are set when a sandbox is created, not later";
            return Err(ApiError::new(400, message));
        }
        let Rules { allow, deny } = self.rules()?;
        Ok(Ask::Replace { origin: ORIGIN.to_owned(), allow, deny })
    }
}

fn refused(error: &impl std::error::Error) -> ApiError {
    ApiError::new(400, error.to_string())
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_range(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(wish: Value) -> Result<Spec, u16> {
        let wish: Wish = serde_json::from_value(wish).unwrap();
        let mut spec = Spec::default();
        wish.apply(&mut spec).map_err(|it| it.status())?;
        Ok(spec)
    }

    fn told(rules: &[Sourced]) -> Vec<String> {
        rules.iter().map(|it| it.rule.to_string()).collect()
    }

    #[test]
    fn who_says_nothing_gets_what_the_server_has() {
        let spec = spec(json!({})).unwrap();
        assert_eq!((spec.network, spec.egress.allow), (Network::None, vec![]));
    }

    #[test]
    fn names_are_let_through_when_all_else_is_closed() {
        let wish =
            json!({ "allowOut": ["a.example", "*.b.example"], "denyOut": ["0.0.0.0/0"] });
        let spec = spec(wish).unwrap();
        assert_eq!(spec.network, Network::Proxy);
        assert_eq!(told(&spec.egress.allow), ["a.example", "**.b.example"]);
        assert!(spec.egress.deny.is_empty());
    }

    #[test]
    fn the_internet_is_opened_by_name_and_closed_by_name() {
        let open = spec(json!({ "allow_internet_access": true })).unwrap();
        assert_eq!(open.network, Network::Proxy);
        assert_eq!(open.egress.allow.len(), 1);
        let some = spec(json!({ "denyOut": ["10.0.0.0/8"] })).unwrap();
        assert!(told(&some.egress.deny).contains(&"10.0.0.0/8".to_owned()));
        let shut = spec(json!({ "allow_internet_access": false })).unwrap();
        assert_eq!(shut.network, Network::None);
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let odd = [
            json!({ "allowOut": ["a.example"] }),
            json!({ "denyOut": ["a.example"] }),
            json!({ "allowOut": ["*.com"], "denyOut": ["0.0.0.0/0"] }),
            json!({ "egressProxy": { "address": "127.0.0.1:1" } }),
            json!({ "dnsServers": ["1.1.1.1"] }),
        ];
        for wish in odd {
            assert_eq!(spec(wish.clone()).unwrap_err(), 400, "{wish}");
        }
        assert!(spec(json!({ "rules": {}, "dnsServers": [] })).is_ok());
    }
}
