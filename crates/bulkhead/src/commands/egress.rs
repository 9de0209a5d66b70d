//! What is said about the way out while a program runs, and after it.

use std::collections::BTreeSet;

use bulkhead_spec::{DeniedHost, EgressEvent, HostName, Outcome, Spent, escape};

use crate::{config::Observed, printer::Printer};

/// How many refused hosts are listed after a run on a terminal.
const LISTED: usize = 8;

/// Says what the user should know at once: a host that was refused for the first time, a budget
/// that comes to its end. An agent that is refused tries again in silence.
pub(crate) fn tell(event: &EgressEvent, printer: &Printer) {
    match event {
        EgressEvent::Denied(denied) => printer.note(&refused(denied)),
        EgressEvent::BudgetLow(spent) => {
            printer.note(&format!("most of a budget is spent: {}", shown(spent)));
        }
        EgressEvent::BudgetSpent(spent) => {
            printer.note(&format!("a budget is spent: {}", shown(spent)));
        }
        EgressEvent::Allowed { .. }
        | EgressEvent::Closed { .. }
        | EgressEvent::Request { .. }
        | EgressEvent::Unlisted { .. }
        | EgressEvent::SecretUsed { .. }
        | EgressEvent::RulesChanged { .. } => {}
    }
}

/// What was refused, for those who could not be told while a program had the screen.
pub(crate) fn summary(outcome: &Outcome, printer: &Printer) {
    let Some(egress) = &outcome.egress else { return };
    egress.denied.iter().take(LISTED).for_each(|it| printer.note(&refused(it)));
    let more = egress.denied.len().saturating_sub(LISTED);
    if more != 0 {
        printer.note(&format!("and {more} more (all of them: bulkhead policy log)"));
    }
}

/// What has changed since a run was observed: hosts that nobody asks for any more, and those that
/// are asked for and refused.
pub(crate) fn drift(observed: &Observed, outcome: &Outcome, printer: &Printer) {
    let Some(egress) = &outcome.egress else { return };
    let reached = egress.hosts.iter().map(|it| it.host.to_string());
    let denied: BTreeSet<String> = egress.denied.iter().map(|it| escape(&it.host)).collect();
    let asked: BTreeSet<String> = reached.chain(denied.iter().cloned()).collect();
    let silent = observed.hosts.iter().map(HostName::as_str).filter(|it| !asked.contains(*it));
    let silent: Vec<&str> = silent.collect();
    let mut changes = Vec::new();
    if !silent.is_empty() {
        changes.push(format!("never asked for: {}", some_of(&silent)));
    }
    if !denied.is_empty() {
        let denied: Vec<&str> = denied.iter().map(String::as_str).collect();
        changes.push(format!("newly denied: {}", some_of(&denied)));
    }
    if !changes.is_empty() {
        let run = escape(&observed.run);
        printer.note(&format!("drift since `{run}` was observed; {}", changes.join("; ")));
    }
}

/// The first of them, and how many there are besides.
fn some_of(hosts: &[&str]) -> String {
    let more = hosts.len().saturating_sub(LISTED);
    let first = hosts.get(..LISTED).unwrap_or(hosts).join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

fn refused(denied: &DeniedHost) -> String {
    let DeniedHost { host, port, reason, allow_with, .. } = denied;
    let (host, reason) = (escape(host), escape(reason));
    match allow_with {
        Some(rule) => {
            format!("denied {host}:{port} ({reason}); allow it with: --allow {}", quoted(rule))
        }
        None => format!("denied {host}:{port} ({reason})"),
    }
}

/// A rule as a shell takes it.
fn quoted(rule: &str) -> String {
    let rule = escape(rule);
    let plain =
        |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | ':' | '_' | '/');
    if rule.chars().all(plain) { rule } else { format!("'{rule}'") }
}

fn shown(spent: &Spent) -> String {
    let Spent { budget, bytes, requests, tokens, money } = spent;
    let budget = escape(budget);
    format!("{budget} ({requests} requests, {bytes} bytes, {tokens} tokens, {money})")
}
