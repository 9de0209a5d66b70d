//! What the gateway has to say: each new thing once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bulkhead_policy::Refusal;
use bulkhead_spec::{DeniedHost, EgressEvent, Host};

use crate::gate::Permit;

/// How many different things are remembered; a program that makes up names is not worth more.
const REMEMBERED: usize = 1024;

/// How many connections and requests are listed one by one. What is written down is the host's
/// disk, which a program could fill by them.
const LISTED: u64 = 50_000;

/// Says what happened to whoever listens, and keeps what the outcome will list.
pub(crate) struct Report {
    sink: Box<dyn Fn(EgressEvent) + Send + Sync>,
    denied: Mutex<HashMap<(String, u16), DeniedHost>>,
    allowed: Mutex<HashSet<(Host, u16)>>,
    used: Mutex<HashSet<(String, Host)>>,
    listed: AtomicU64,
}

impl Report {
    pub(crate) fn new(sink: impl Fn(EgressEvent) + Send + Sync + 'static) -> Self {
        Self {
            sink: Box::new(sink),
            denied: Mutex::default(),
            allowed: Mutex::default(),
            used: Mutex::default(),
            listed: AtomicU64::new(0),
        }
    }

    /// Says it, as often as it happens.
    pub(crate) fn say(&self, event: EgressEvent) {
        (self.sink)(event);
    }

    /// Says it unless too many of its kind were said before, which is said once.
    pub(crate) fn list(&self, event: EgressEvent) {
        match self.listed.fetch_add(1, Relaxed) {
            before if before < LISTED => self.say(event),
            LISTED => self.say(EgressEvent::Unlisted { after: LISTED }),
            _ => {}
        }
    }

    /// A host was refused; said when it is a new one.
    pub(crate) fn denied(&self, host: &str, port: u16, refusal: &Refusal) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (host.to_owned(), port);
        if let Some(known) = denied.get_mut(&key) {
            known.times += 1;
            return;
        }
        if denied.len() >= REMEMBERED {
            return;
        }
        let rule = refusal.reason.rule();
        let new = DeniedHost {
            host: host.to_owned(),
            port,
            reason: refusal.reason.to_string(),
            rule: rule.map(|it| it.rule.to_string()),
            origin: rule.map(|it| it.origin.clone()),
            allow_with: refusal.allow_with.clone(),
            times: 1,
        };
        denied.insert(key, new.clone());
        drop(denied);
        self.say(EgressEvent::Denied(new));
    }

    /// A host was reached; said when it is a new one.
    pub(crate) fn allowed(&self, permit: &Permit) {
        let to = permit.destination();
        let new = {
            let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
            allowed.len() < REMEMBERED && allowed.insert((to.host.clone(), to.port))
        };
        if new {
            let by = &permit.allowance().by;
            self.say(EgressEvent::Allowed {
                host: to.host.clone(),
                port: to.port,
                rule: by.rule.to_string(),
                origin: by.origin.clone(),
            });
        }
    }

    /// A secret was used; said once for each host.
    pub(crate) fn secret_used(&self, name: &str, host: &Host) {
        let new = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.len() < REMEMBERED && used.insert((name.to_owned(), host.clone()))
        };
        if new {
            self.say(EgressEvent::SecretUsed { name: name.to_owned(), host: host.clone() });
        }
    }

    /// Every host that was refused, the most often refused first.
    pub(crate) fn all_denied(&self) -> Vec<DeniedHost> {
        let denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = denied.values().cloned().collect();
        all.sort_by(|one, other| {
            other.times.cmp(&one.times).then_with(|| one.host.cmp(&other.host))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_program_cannot_fill_the_record_with_connections() {
        let said = Arc::new(Mutex::new((0_u64, Vec::new())));
        let heard = Arc::clone(&said);
        let report = Report::new(move |event| {
            let mut said = heard.lock().unwrap();
            said.0 += 1;
            if matches!(event, EgressEvent::Unlisted { .. }) {
                said.1.push(event);
            }
        });
        let host: Host = "good.com".parse().unwrap();
        for _ in 0..LISTED + 1000 {
            report.list(EgressEvent::Closed { host: host.clone(), port: 443, up: 0, down: 0 });
        }
        let expected = (LISTED + 1, vec![EgressEvent::Unlisted { after: LISTED }]);
        assert_eq!(*said.lock().unwrap(), expected);
        // What changes the rules is said all the same.
        report.say(EgressEvent::RulesChanged { allow: 0, deny: 0 });
        assert_eq!(said.lock().unwrap().0, LISTED + 2);
    }
}
