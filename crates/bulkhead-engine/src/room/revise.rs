//! Changes to a room that lives.
//!
//! Invariant: what a room is after a change is decided as it was when it was made, by the same rules;
//! nothing is changed before everything is decided.

use std::sync::Arc;

use bulkhead_policy::{Plan, Policy, Settled, resolve};
use bulkhead_spec::{Change, Event, Limits, Network, Spec, escape};

use super::{Room, held, locked};
use crate::RunError;

/// A plan that was decided for a room and is not in force.
pub(crate) struct Revised {
    plan: Plan,
}

impl Room {
    /// Decides what the room would be if it were asked for by `spec`. Changes nothing.
    pub(crate) fn redecide(&self, spec: Spec, policy: &Policy) -> Result<Revised, RunError> {
        let before = self.plan();
        let plan = resolve(spec, policy)?;
        let settled = plan.settle(&self.upheld).map_err(|lacking| {
            let because =
                lacking.iter().map(|it| format!("{it}: the room was made without it"));
            RunError::Unplaced { because: because.collect(), lacking: lacking.clone() }
        })?;
        let Settled { mut plan, missing: _ } = settled;
        if let Some(image) = before.image() {
            plan = plan.furnished(image.clone())?;
        }
        plan = plan.on(before.disk().clone());
        if let Some(nameplate) = before.nameplate() {
            plan = plan.named(nameplate.clone());
        }
        Ok(Revised { plan })
    }

    /// Makes the room what was decided: `change` is what differs from before.
    ///
    /// # Guarantees
    /// After an error, the limits and rules are those of before.
    pub(crate) async fn revise(
        &self,
        revised: Revised,
        change: &Change,
    ) -> Result<(), RunError> {
        self.check_way_out(change)?;
        let before = *self.plan().limits();
        let wanted = differing(&before, revised.plan.limits());
        self.bound(&wanted, &before).await?;
        if let Some(way_out) = locked(&self.way_out).as_ref() {
            way_out.change(change);
        }
        self.adopt(revised);
        self.ledger.record(&self.id, &Event::Changed { what: told(change) })
    }

    /// Gives the room to somebody: programs start with what was decided.
    pub(crate) fn hand_out(&self, revised: Revised, name: &str) -> Result<(), RunError> {
        self.ledger.record(&self.id, &Event::HandedOut { name: name.to_owned() })?;
        self.adopt(revised);
        Ok(())
    }

    fn adopt(&self, Revised { plan }: Revised) {
        let guide = locked(&self.way_out).as_ref().map(super::WayOut::guide);
        let plan = match &guide {
            Some(guide) => plan.guided(guide),
            None => plan,
        };
        *locked(&self.plan) = Arc::new(plan);
    }

    fn check_way_out(&self, change: &Change) -> Result<(), RunError> {
        let gated = match self.plan().network() {
            Network::Proxy | Network::Observe => true,
            Network::None | Network::Open => false,
        };
        if gated || (change.allow.is_empty() && change.deny.is_empty()) {
            return Ok(());
        }
        let why = "the room was made without a gateway that rules could speak of";
        Err(RunError::Room { what: "change the rules", why: why.to_owned() })
    }

    /// Has the sandbox hold `wanted`, or still `before`.
    async fn bound(&self, wanted: &Limits, before: &Limits) -> Result<(), RunError> {
        if *wanted == Limits::default() {
            return Ok(());
        }
        let refused = |why: String| RunError::Room { what: "change the limits", why };
        let sandbox = self.sandbox.read().await;
        let sandbox = held(&sandbox)?;
        if let (Some(most), Some(used)) = (wanted.memory, sandbox.usage()?.memory)
            && most < used
        {
            return Err(refused(format!("asked for {most} of memory, and {used} are in use")));
        }
        let unbound = || refused("nothing on this host bounds a room that lives".to_owned());
        let bounds = sandbox.bounds().ok_or_else(unbound)?;
        if let Err(error) = bounds.bound(wanted).await {
            // One of several limits may have been changed before another was refused.
            if let Err(error) = bounds.bound(before).await {
                tracing::warn!(%error, "the limits of before could not be put back");
            }
            return Err(error.into());
        }
        Ok(())
    }
}

/// Those of the limits on `after` that a living room can be given and that differ.
fn differing(before: &Limits, after: &Limits) -> Limits {
    fn new<T: Copy + PartialEq>(before: Option<T>, after: Option<T>) -> Option<T> {
        if before == after { None } else { after }
    }
    Limits {
        memory: new(before.memory, after.memory),
        cpus: new(before.cpus, after.cpus),
        pids: new(before.pids, after.pids),
        ..Limits::default()
    }
}

/// What is different, each in a few words.
fn told(change: &Change) -> Vec<String> {
    let Limits { memory, cpus, pids, .. } = change.limits;
    let limits = [
        memory.map(|it| format!("memory {it}")),
        cpus.map(|it| format!("cpus {it}")),
        pids.map(|it| format!("pids {it}")),
    ];
    let named = |what: &str, name: &std::ffi::OsString| {
        format!("{what} `{}`", escape(&name.to_string_lossy()))
    };
    let set = change.env.keys().map(|it| named("variable", it));
    let unset = change.without.iter().map(|it| named("no variable", it));
    let allow = change.allow.iter().map(|it| format!("allow `{}`", it.rule));
    let deny = change.deny.iter().map(|it| format!("deny `{}`", it.rule));
    limits.into_iter().flatten().chain(set).chain(unset).chain(allow).chain(deny).collect()
}
