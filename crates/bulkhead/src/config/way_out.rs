//! What a source of configuration says about the way out.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    str::FromStr,
};

use bulkhead_policy::EgressCeiling;
use bulkhead_spec::{
    Budget, Egress, EgressLimits, HostName, HostPattern, InvalidRule, Label, Preset,
    SecretBinding, Sourced as RuleFrom, Target,
};
use serde_json::{Value, json};

use super::{
    Origin,
    layer::{Layer, Sourced},
};

/// What may leave, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct WayOut {
    /// A ready-made set of rules.
    pub(crate) preset: Option<Preset>,
    /// What may be reached.
    pub(crate) allow: Vec<Said>,
    /// What may not.
    pub(crate) deny: Vec<Said>,
    /// Values that programs use without seeing them.
    pub(crate) secrets: Vec<Sourced<SecretBinding>>,
    /// How much may be spent.
    pub(crate) budgets: Vec<Sourced<Budget>>,
    /// How much may pass.
    pub(crate) limits: EgressLimits,
    /// The private network to join.
    pub(crate) network: Option<Label>,
    /// The run whose hosts the rules beside this were written from.
    pub(crate) observed: Option<RunName>,
}

/// What a run was called. Names what is written down, and is only shown.
#[derive(Clone, Debug)]
pub(crate) struct RunName(pub(crate) String);

impl FromStr for RunName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// What was reached when a run was observed, so that it can be seen what has changed since.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The run.
    pub(crate) run: String,
    /// The hosts.
    pub(crate) hosts: BTreeSet<HostName>,
}

impl Layer {
    /// What was observed, if the rules come from that: the hosts of the file that says so.
    pub(crate) fn observed(&self) -> Option<Observed> {
        let run = self.way_out.observed.as_ref()?.0.clone();
        let Origin::File { path: from, .. } = self.origins.get("egress.observed")? else {
            return None;
        };
        let beside =
            |it: &&Said| matches!(&it.origin, Origin::File { path, .. } if path == from);
        let rules = self.way_out.allow.iter().filter(beside).flat_map(|it| &it.rules);
        let hosts = rules.filter_map(|it| match &it.rule.target {
            Target::Names(HostPattern::Exact(name)) => Some(name.clone()),
            Target::Names(_) | Target::Addresses(_) => None,
        });
        Some(Observed { run, hosts: hosts.collect() })
    }
}

/// Rules, as somebody wrote them: one, or the name of a group.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// What was written.
    pub(crate) text: String,
    /// What it means.
    pub(crate) rules: Vec<RuleFrom>,
    /// Who wrote it.
    pub(crate) origin: Origin,
}

impl Said {
    /// Understands `text` as something to be allowed.
    pub(crate) fn allowed(text: &str, origin: &Origin) -> Result<Self, InvalidRule> {
        let rules = bulkhead_spec::allowing(text, &origin.to_string())?;
        Ok(Self { text: text.to_owned(), rules, origin: origin.clone() })
    }

    /// Understands `text` as something to be denied.
    pub(crate) fn denied(text: &str, origin: &Origin) -> Result<Self, InvalidRule> {
        let rules = bulkhead_spec::denying(text, &origin.to_string())?;
        Ok(Self { text: text.to_owned(), rules, origin: origin.clone() })
    }
}

impl WayOut {
    /// This on top of `below`: single values replace, lists add.
    #[must_use]
    pub(crate) fn over(self, below: Self) -> Self {
        let limits = EgressLimits {
            connections: self.limits.connections.or(below.limits.connections),
            up: self.limits.up.or(below.limits.up),
            down: self.limits.down.or(below.limits.down),
            requests: self.limits.requests.or(below.limits.requests),
        };
        Self {
            preset: self.preset.or(below.preset),
            allow: [below.allow, self.allow].concat(),
            deny: [below.deny, self.deny].concat(),
            secrets: [below.secrets, self.secrets].concat(),
            budgets: [below.budgets, self.budgets].concat(),
            limits,
            network: self.network.or(below.network),
            observed: self.observed.or(below.observed),
        }
    }

    /// Who wants a way out by saying what it is to be; nobody who only narrows one.
    pub(crate) fn wanted_by(&self, origins: &BTreeMap<&'static str, Origin>) -> Option<Origin> {
        let allow = self.allow.first().map(|it| it.origin.clone());
        let secret = || self.secrets.first().map(|it| it.origin.clone());
        let named = |key: &str| origins.get(key).cloned();
        allow
            .or_else(|| named("egress.preset"))
            .or_else(secret)
            .or_else(|| named("egress.network"))
    }

    /// What to ask for.
    pub(crate) fn asked(&self) -> Egress {
        let preset = self.preset.unwrap_or_default();
        let rules = |said: &[Said]| said.iter().flat_map(|it| it.rules.clone()).collect();
        let mut allow: Vec<RuleFrom> = preset.allow();
        allow.extend::<Vec<_>>(rules(&self.allow));
        // A secret for a host that cannot be reached is of no use.
        allow.extend(self.secrets.iter().flat_map(reach));
        let mut deny: Vec<RuleFrom> = preset.deny();
        deny.extend::<Vec<_>>(rules(&self.deny));
        Egress {
            allow,
            deny,
            secrets: self.secrets.iter().map(|it| it.value.clone()).collect(),
            budgets: self.budgets.iter().map(|it| it.value.clone()).collect(),
            limits: self.limits,
            network: self.network.clone(),
            alias: None,
        }
    }
}

/// The rules that let a secret get where it may go.
fn reach(secret: &Sourced<SecretBinding>) -> Vec<RuleFrom> {
    let origin = format!("secret {} ({})", secret.value.name, secret.origin);
    let rule = |host: &_| bulkhead_spec::allowing(&format!("https://{host}"), &origin).ok();
    secret.value.hosts.iter().filter_map(rule).flatten().collect()
}

pub(super) fn add_allow(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let said = Said::allowed(text, origin).map_err(|error| error.to_string())?;
    layer.way_out.allow.push(said);
    Ok(())
}

pub(super) fn add_deny(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let said = Said::denied(text, origin).map_err(|error| error.to_string())?;
    layer.way_out.deny.push(said);
    Ok(())
}

pub(super) fn add_secret(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let value = text.parse().map_err(|error| format!("{error}"))?;
    layer.way_out.secrets.push(Sourced { value, origin: origin.clone() });
    Ok(())
}

pub(super) fn add_budget(layer: &mut Layer, text: &str, origin: &Origin) -> Result<(), String> {
    let value = text.parse().map_err(|error| format!("{error}"))?;
    layer.way_out.budgets.push(Sourced { value, origin: origin.clone() });
    Ok(())
}

/// The list of one layer: a host must be on the lists of all that have one.
pub(super) fn add_reachable(
    layer: &mut Layer,
    text: &str,
    origin: &Origin,
) -> Result<(), String> {
    let said = Said::allowed(text, origin).map_err(|error| error.to_string())?;
    let lists = std::mem::take(&mut layer.ceiling.egress.allow);
    let mut list: BTreeSet<RuleFrom> = lists.into_iter().next().unwrap_or_default();
    list.extend(said.rules);
    layer.ceiling.egress.allow.insert(list);
    layer.origins.insert("ceiling.allow", origin.clone());
    Ok(())
}

pub(super) fn add_unreachable(
    layer: &mut Layer,
    text: &str,
    origin: &Origin,
) -> Result<(), String> {
    let said = Said::denied(text, origin).map_err(|error| error.to_string())?;
    layer.ceiling.egress.deny.extend(said.rules);
    layer.origins.insert("ceiling.deny", origin.clone());
    Ok(())
}

pub(super) fn show_allow(layer: &Layer) -> Option<Value> {
    texts(layer.way_out.allow.iter().map(|it| it.text.clone()))
}

pub(super) fn show_deny(layer: &Layer) -> Option<Value> {
    texts(layer.way_out.deny.iter().map(|it| it.text.clone()))
}

pub(super) fn show_secrets(layer: &Layer) -> Option<Value> {
    texts(layer.way_out.secrets.iter().map(|it| it.value.to_string()))
}

pub(super) fn show_budgets(layer: &Layer) -> Option<Value> {
    texts(layer.way_out.budgets.iter().map(|it| it.value.to_string()))
}

pub(super) fn show_reachable(layer: &Layer) -> Option<Value> {
    let EgressCeiling { allow, .. } = &layer.ceiling.egress;
    texts(allow.iter().flatten().map(|it| it.rule.to_string()))
}

pub(super) fn show_unreachable(layer: &Layer) -> Option<Value> {
    texts(layer.ceiling.egress.deny.iter().map(|it| it.rule.to_string()))
}

fn texts(texts: impl Iterator<Item = String>) -> Option<Value> {
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| json!(texts))
}
