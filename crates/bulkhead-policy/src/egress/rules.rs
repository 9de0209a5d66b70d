//! The rules of one sandbox, and what they say.

use std::{collections::BTreeSet, net::IpAddr};

use bulkhead_spec::{Host, HostName, RequestPath, Rule, Sourced, Target};
use serde::Serialize;

use super::{
    Allowance, EgressCeiling, Reason, Refusal, Scope, Speech, Verdict,
    address::{self, AddressClass},
    verdict::denies_port,
};

/// Rules to judge by. The default allows nothing.
///
/// Deny wins, no match is deny, and every list must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EgressRules {
    allow: Vec<Sourced>,
    deny: Vec<Sourced>,
    ceilings: Vec<Vec<Sourced>>,
    /// Those of `deny` that nobody takes back: the machine's owner said them.
    #[serde(skip)]
    barred: Vec<Sourced>,
}

/// One request, as far as rules can speak of it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    method: &'a str,
    path: &'a RequestPath,
}

impl EgressRules {
    /// What is asked for, before any ceiling.
    pub fn new(allow: Vec<Sourced>, deny: Vec<Sourced>) -> Self {
        Self { allow, deny, ceilings: Vec::new(), barred: Vec::new() }
    }

    /// The same, as far as `ceiling` allows it.
    #[must_use]
    pub fn under(mut self, ceiling: &EgressCeiling) -> Self {
        self.deny.extend(ceiling.deny.iter().cloned());
        self.barred.extend(ceiling.deny.iter().cloned());
        let lists = ceiling.allow.iter().map(|it| it.iter().cloned().collect());
        self.ceilings.extend(lists);
        self
    }

    /// The same with one rule more that allows. Ceilings stay as they are.
    #[must_use]
    pub fn allowing(mut self, rule: Sourced) -> Self {
        self.allow.push(rule);
        self
    }

    /// The same with one rule more that denies.
    #[must_use]
    pub fn denying(mut self, rule: Sourced) -> Self {
        self.deny.push(rule);
        self
    }

    /// The same without what was said about `rule` by `origin`. What a ceiling denies stays denied.
    #[must_use]
    pub fn without(mut self, rule: &Rule, origin: &str) -> Self {
        let keep = |it: &Sourced| it.rule != *rule || it.origin != origin;
        self.allow.retain(keep);
        let barred = std::mem::take(&mut self.barred);
        self.deny.retain(|it| keep(it) || barred.contains(it));
        self.barred = barred;
        self
    }

    /// The rules that allow.
    pub fn allowed(&self) -> &[Sourced] {
        &self.allow
    }

    /// The rules that deny.
    pub fn denied(&self) -> &[Sourced] {
        &self.deny
    }

    /// Every port on which something is allowed; nobody needs to listen on another.
    pub fn ports(&self) -> BTreeSet<u16> {
        self.allow.iter().flat_map(|it| it.rule.ports.iter()).collect()
    }

    /// Whether `host` may be reached on `port`.
    pub fn judge(&self, host: &Host, port: u16) -> Verdict {
        match self.weigh(host, port, None) {
            Ok(allowance) => Verdict::Allowed(allowance),
            Err(reason) => Verdict::Denied(refusal(reason, suggestion(host, port))),
        }
    }

    /// Whether this request may be sent to `host` on `port`.
    pub fn judge_request(&self, host: &Host, port: u16, method: &str, target: &str) -> Verdict {
        let whole = match self.weigh(host, port, None) {
            Ok(allowance) => allowance,
            Err(reason) => return Verdict::Denied(refusal(reason, suggestion(host, port))),
        };
        if whole.scope == Scope::Connection {
            return Verdict::Allowed(whole);
        }
        let Ok(path) = target.parse::<RequestPath>() else {
            let reason = Reason::Forbidden("its path can be read in more than one way");
            return Verdict::Denied(refusal(reason, String::new()));
        };
        match self.weigh(host, port, Some(Asked { method, path: &path })) {
            Ok(allowance) => Verdict::Allowed(allowance),
            Err(reason) => {
                let scheme =
                    if whole.speech.contains(&Speech::Http) { "http" } else { "https" };
                let port = match (scheme, port) {
                    ("https", 443) | ("http", 80) => String::new(),
                    (_, port) => format!(":{port}"),
                };
                let wider = format!("{method} {scheme}://{host}{port}{}", path.as_str());
                Verdict::Denied(refusal(reason, wider))
            }
        }
    }

    /// Whether some name could be asked about: it is reached on some port.
    pub fn knows(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        let ports = self.ports();
        ports.into_iter().any(|port| matches!(self.judge(&host, port), Verdict::Allowed(_)))
    }

    /// Whether `address`, to which an allowed name resolved, may be dialled on `port`.
    pub fn may_dial(&self, address: IpAddr, port: u16) -> bool {
        let denied = |it: &&Sourced| {
            let Target::Addresses(range) = &it.rule.target else { return false };
            address::lists(range, address) && denies_port(&it.rule, port)
        };
        if self.deny.iter().any(|it| denied(&it)) {
            return false;
        }
        match AddressClass::of(address) {
            AddressClass::Public => true,
            AddressClass::Forbidden => false,
            AddressClass::Private => {
                let lists = |it: &Sourced| {
                    let Target::Addresses(range) = &it.rule.target else { return false };
                    address::lists(range, address) && it.rule.ports.contains(port)
                };
                let all = std::iter::once(&self.allow).chain(&self.ceilings);
                all.into_iter().all(|list| list.iter().any(lists))
            }
        }
    }

    /// The decision: of the connection, or of one request on it.
    fn weigh(
        &self,
        host: &Host,
        port: u16,
        asked: Option<Asked<'_>>,
    ) -> Result<Allowance, Reason> {
        if let Some(why) = forbidden(host) {
            return Err(Reason::Forbidden(why));
        }
        let mut scope = Scope::Connection;
        for sourced in &self.deny {
            if !sourced.rule.means(host) || !denies_port(&sourced.rule, port) {
                continue;
            }
            match asked {
                None if sourced.rule.is_about_requests() => scope = Scope::Request,
                Some(asked) if !covers(&sourced.rule, asked) => {}
                None | Some(_) => return Err(Reason::Rule(sourced.clone())),
            }
        }
        let mut allowance = of_list(&self.allow, (host, port), asked).ok_or(Reason::NoRule)?;
        for list in &self.ceilings {
            let other = of_list(list, (host, port), asked).ok_or(Reason::Ceiling)?;
            allowance.speech = shared(&allowance.speech, &other.speech);
            if other.scope == Scope::Request {
                allowance.scope = Scope::Request;
            }
        }
        if allowance.speech.is_empty() {
            return Err(Reason::Ceiling);
        }
        if scope == Scope::Request {
            allowance.scope = Scope::Request;
        }
        Ok(allowance)
    }
}

/// What one list of rules allows of a destination.
fn of_list(
    list: &[Sourced],
    (host, port): (&Host, u16),
    asked: Option<Asked<'_>>,
) -> Option<Allowance> {
    let fits = |it: &&Sourced| it.rule.means(host) && it.rule.ports.contains(port);
    let fits = |it: &&Sourced| fits(it) && asked.is_none_or(|asked| covers(&it.rule, asked));
    let fitting: Vec<_> = list.iter().filter(fits).collect();
    let whole = fitting.iter().find(|it| !it.rule.is_about_requests());
    let by = whole.or(fitting.first())?;
    let speech: BTreeSet<_> = fitting.iter().map(|it| Speech::by(&it.rule, port)).collect();
    let scope = if whole.is_some() { Scope::Connection } else { Scope::Request };
    Some(Allowance { by: (**by).clone(), speech, scope })
}

fn covers(rule: &Rule, asked: Asked<'_>) -> bool {
    let method = rule.methods.is_empty() || rule.methods.contains(asked.method);
    method && rule.path.as_ref().is_none_or(|path| path.matches(asked.path))
}

/// What both allow; raw bytes include everything else.
fn shared(one: &BTreeSet<Speech>, other: &BTreeSet<Speech>) -> BTreeSet<Speech> {
    let within =
        |it: &Speech, set: &BTreeSet<Speech>| set.contains(it) || set.contains(&Speech::Raw);
    let of = |it: &&Speech| within(it, one) && within(it, other);
    one.union(other).filter(of).copied().collect()
}

/// Why no rule could allow `host`.
fn forbidden(host: &Host) -> Option<&'static str> {
    match host {
        Host::Name(name) if address::is_forbidden_name(name) => Some(match name.as_str() {
            "localhost" => {
                "it is the host itself: its services are `host.bulkhead.internal:PORT`"
            }
            _ => "it names a metadata service or the host itself",
        }),
        Host::Address(it) if AddressClass::of(*it) == AddressClass::Forbidden => Some(
            "its address is the host's own, link-local, a metadata service or no destination",
        ),
        Host::Name(_) | Host::Address(_) => None,
    }
}

fn refusal(reason: Reason, wider: String) -> Refusal {
    let helps = matches!(reason, Reason::NoRule);
    Refusal { reason, allow_with: helps.then_some(wider) }
}

/// The rule that would allow this, as somebody would write it.
fn suggestion(host: &Host, port: u16) -> String {
    if port == 443 || port == 80 { host.to_string() } else { format!("{host}:{port}") }
}
