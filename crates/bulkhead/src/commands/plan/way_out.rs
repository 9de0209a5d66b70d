//! What a plan says about the way out.

use bulkhead_policy::{EgressRules, Plan, Verdict};
use bulkhead_spec::{Caught, Host, HostPattern, Network, Ports, Sourced, Target};

/// Rules that are written out; with more, how many there are is more than anybody wants to read.
const MOST: usize = 12;

/// Rows about who may be reached and who gets which secret, and what leads to the gateway.
pub(super) fn rows(plan: &Plan, caught: Caught) -> Vec<(&'static str, String)> {
    match plan.network() {
        Network::Proxy | Network::Observe => {}
        Network::None | Network::Open => return Vec::new(),
    }
    let rules = plan.egress().rules();
    let reached: Vec<&Sourced> = rules.allowed().iter().filter(|it| holds(rules, it)).collect();
    let refused: Vec<&Sourced> = rules.denied().iter().collect();
    let lists = [("reaches", reached), ("refuses", refused)];
    let lists = lists.into_iter().filter(|(_, rules)| !rules.is_empty());
    let lists = lists.map(|(name, rules)| (name, listed(&rules)));
    let secrets = plan.egress().secrets().iter().map(|it| ("secret", it.to_string()));
    let network = plan.egress().network().map(|it| ("network", format!("joins `{it}`")));
    let budgets = plan.egress().budgets().iter().map(|it| ("budget", it.to_string()));
    let gateway = match caught {
        Caught::EveryAddress => "meets connections to every address",
        Caught::Names => "meets connections to names; addresses have no route but by the proxy",
    };
    let gateway = [("gateway", gateway.to_owned())];
    gateway.into_iter().chain(lists).chain(secrets).chain(budgets).chain(network).collect()
}

/// Whether what `allowed` speaks of can be reached: a ceiling or another rule may forbid it.
fn holds(rules: &EgressRules, allowed: &Sourced) -> bool {
    let Target::Names(HostPattern::Exact(name)) = &allowed.rule.target else { return true };
    let ports = match allowed.rule.ports {
        Ports::Web => vec![443, 80],
        Ports::One(port) => vec![port],
    };
    let host = Host::Name(name.clone());
    ports.iter().any(|port| matches!(rules.judge(&host, *port), Verdict::Allowed(_)))
}

fn listed(rules: &[&Sourced]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for text in rules.iter().map(|it| it.rule.to_string()) {
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    let left = shown.len().saturating_sub(MOST);
    shown.truncate(MOST);
    let rest = if left == 0 { String::new() } else { format!(" and {left} more") };
    format!("{}{rest}", shown.join(" "))
}
