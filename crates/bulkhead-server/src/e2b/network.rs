//! What a sandbox may reach, in the words of E2B's clients, as rules of the gateway.
//!
//! E2B opens the world and lets a client close it. Here the server's flags say what every room may
//! reach, and a client may ask for more by name, as far as the server's configuration lets it.
//! `allow_internet_access` is no such ask: clients send `true` though nobody said so. Where the two
//! differ otherwise, the stricter holds: what a client denies is denied though it also allows it.

use bulkhead_engine::way_out::{Ask, Headers};
use bulkhead_spec::{Egress, Network, Preset, Sourced, Spec, allowing, denying};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::ApiError,
    transforms::{self, Header},
};
use crate::secrets::Secrets;

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
    /// Whether everything is closed but for what is named.
    fn closes(&self) -> bool {
        self.internet == Some(false) || self.deny_out.iter().any(|it| is_everything(it))
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

    /// The rules that it means, where those of `base` are the server's own. What the server allows
    /// is closed by whoever closes everything, and what it denies stays denied.
    pub(crate) fn rules(&self, base: &Egress) -> Result<Rules, ApiError> {
        self.check()?;
        let opens = self.allow_out.iter().any(|it| is_everything(it));
        if !self.closes() && !opens && self.allow_out.iter().any(|it| !is_range(it)) {
            let message = "domains in allowOut need 0.0.0.0/0 in denyOut, \
                           or everything else could be reached too";
            return Err(ApiError::new(400, message));
        }
        let (mut allow, mut deny) = (Vec::new(), Vec::new());
        if opens {
            allow.extend(Preset::Open.allow());
            deny.extend(Preset::Open.deny());
        }
        for text in self.allow_out.iter().filter(|it| !is_everything(it)) {
            // Their star stands for any depth.
            let text = text.strip_prefix("*.").map_or(text.clone(), |it| format!("**.{it}"));
            allow.extend(allowing(&text, ORIGIN).map_err(|error| refused(&error))?);
        }
        for text in self.deny_out.iter().filter(|it| !is_everything(it)) {
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
        // The server's own come first and stay as they are: who asks for nothing has the same
        // rules as any other room.
        let own = if self.closes() { &[] } else { base.allow.as_slice() };
        Ok(Rules { allow: own.iter().cloned().chain(allow).collect(), deny })
    }

    /// Makes `spec`, which is the server's, what the client wants.
    pub(crate) fn apply(&self, spec: &mut Spec) -> Result<(), ApiError> {
        let Rules { allow, deny } = self.rules(&spec.egress)?;
        let unchanged = !self.closes() && allow.len() == spec.egress.allow.len();
        let observed = !self.closes() && spec.network == Network::Observe;
        if !unchanged && !observed {
            spec.network = if allow.is_empty() { Network::None } else { Network::Proxy };
        }
        spec.egress.allow = allow;
        spec.egress.deny.extend(deny);
        Ok(())
    }

    /// Whether the ports of the room are for those who have its token.
    pub(crate) fn hides_ports(&self) -> bool {
        self.allow_public_traffic == Some(false)
    }

    /// Whether somebody can be reached, on a server whose rooms can as it `has`.
    #[expect(clippy::fn_params_excessive_bools, reason = "the word of the protocol")]
    pub(crate) fn reaches_anybody(&self, has: bool) -> bool {
        !self.allow_out.is_empty() || has && !self.closes()
    }

    /// Whether nothing is asked for that a room without a network does not have.
    pub(crate) fn opens_nothing(&self) -> bool {
        self.closes() && self.allow_out.is_empty()
    }

    /// The headers that it sets.
    pub(crate) fn headers(&self, secrets: &Secrets) -> Result<Vec<Header>, ApiError> {
        self.rules.as_ref().map_or(Ok(Vec::new()), |it| transforms::headers(it, secrets))
    }

    /// How a room that has a gateway is told, on a server whose own rules are those of `base`.
    pub(crate) fn ask(&self, base: &Egress, headers: Headers) -> Result<Ask, ApiError> {
        let Rules { allow, deny } = self.rules(base)?;
        let (origin, also) = (ORIGIN.to_owned(), base.allow.clone());
        Ok(Ask::Replace { origin, also, allow, deny, headers: Some(headers) })
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

fn is_everything(text: &str) -> bool {
    EVERYTHING.contains(&text)
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
        let unsaid = spec(json!({ "allow_internet_access": true })).unwrap();
        assert_eq!(unsaid.network, Network::None);
        let open = spec(json!({ "allowOut": ["0.0.0.0/0"], "denyOut": ["10.0.0.0/8"] }));
        let open = open.unwrap();
        assert_eq!((open.network, open.egress.allow.len()), (Network::Proxy, 1));
        assert!(told(&open.egress.deny).contains(&"10.0.0.0/8".to_owned()));
        let shut = spec(json!({ "allow_internet_access": false })).unwrap();
        assert_eq!(shut.network, Network::None);
    }

    #[test]
    fn what_the_server_allows_is_kept_or_closed_as_a_whole() {
        let mut base = Spec { network: Network::Proxy, ..Spec::default() };
        base.egress.allow = allowing("server.example", "flag").unwrap();
        base.egress.deny = denying("evil.example", "flag").unwrap();
        let apply = |wish: Value| {
            let mut spec = base.clone();
            serde_json::from_value::<Wish>(wish).unwrap().apply(&mut spec).unwrap();
            (spec.network, told(&spec.egress.allow), told(&spec.egress.deny))
        };
        let (network, allow, deny) = apply(json!({ "denyOut": ["10.0.0.0/8"] }));
        assert_eq!(network, Network::Proxy);
        assert_eq!(allow, ["server.example"]);
        assert_eq!(deny, ["evil.example", "10.0.0.0/8"]);
        let shut = apply(json!({ "allow_internet_access": false }));
        assert_eq!(shut, (Network::None, vec![], vec!["evil.example".to_owned()]));
        let wish = json!({ "allowOut": ["a.example"], "denyOut": ["0.0.0.0/0"] });
        assert_eq!(apply(wish).1, ["a.example"]);
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
