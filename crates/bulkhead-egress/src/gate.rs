//! The decision.
//!
//! Whatever wants out comes here, whichever way it came, and leaves with a [`Permit`] or a
//! [`Denied`]. Nothing else makes a permit.

use std::{net::Ipv4Addr, sync::Arc};

use bulkhead_policy::{Allowance, EgressRules, Reason, Refusal, Scope, Speech, Verdict};

use crate::{
    destination::Destination,
    meter::{Seat, Toll},
    room::Room,
};

/// Proof that a destination was allowed, by one snapshot of the rules.
pub(crate) struct Permit {
    destination: Destination,
    neighbour: Option<Ipv4Addr>,
    allowance: Allowance,
    rules: Arc<EgressRules>,
    toll: Arc<Toll>,
    _seat: Seat,
}

/// A destination that was refused, as it was spelled, and why.
#[derive(Clone, Debug)]
pub(crate) struct Denied {
    /// The host, as far as it could be read.
    pub(crate) host: String,
    /// The port, or 0 where there was none to read.
    pub(crate) port: u16,
    /// Why.
    pub(crate) refusal: Box<Refusal>,
}

impl Permit {
    /// What was allowed.
    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The address of the neighbour that it is for, if it is for one: nobody else may be dialled
    /// by it, whoever has that name meanwhile.
    pub(crate) fn neighbour(&self) -> Option<Ipv4Addr> {
        self.neighbour
    }

    /// By what, and how far.
    pub(crate) fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The rules that it was decided by.
    pub(crate) fn rules(&self) -> &EgressRules {
        &self.rules
    }

    /// What passes under this permit is counted here.
    pub(crate) fn toll(&self) -> &Arc<Toll> {
        &self.toll
    }

    /// Whether `speech` may be spoken there.
    pub(crate) fn lets_speak(&self, speech: Speech) -> bool {
        let allowed = &self.allowance.speech;
        allowed.contains(&speech) || allowed.contains(&Speech::Raw)
    }

    /// Whether each request must be judged as well.
    pub(crate) fn needs_reading(&self) -> bool {
        self.allowance.scope == Scope::Request
    }
}

/// Decides whether `destination` may be reached.
pub(crate) fn judge(room: &Room, destination: Destination) -> Result<Permit, Denied> {
    let rules = room.rules();
    match rules.judge(&destination.host, destination.port) {
        Verdict::Allowed(allowance) => permit(room, destination, allowance, rules),
        Verdict::Denied(refusal) => match room.welcome(&destination.host) {
            Some((address, allowance)) => visit(room, destination, (address, allowance), rules),
            None => Err(refuse(room, &destination, refusal)),
        },
    }
}

/// Decides whether one request may be sent under a permit, by the rules of this moment.
pub(crate) fn judge_request(
    room: &Room,
    permit: &Permit,
    method: &str,
    target: &str,
) -> Result<(), Denied> {
    let Destination { host, port } = &permit.destination;
    let verdict = room.rules().judge_request(host, *port, method, target);
    let verdict = room.neighbourly(permit, verdict);
    let spent = || permit.toll.request().err();
    match verdict {
        Verdict::Denied(refusal) => Err(refuse(room, &permit.destination, refusal)),
        Verdict::Allowed(_) => match spent() {
            None => Ok(()),
            Some(why) => Err(refuse(room, &permit.destination, used_up(why))),
        },
    }
}

/// What was asked for names no host: it goes nowhere, and it is said.
pub(crate) fn unreadable(room: &Room, text: &str, port: u16) -> Denied {
    let host: String = bulkhead_spec::escape(text).chars().take(255).collect();
    let refusal = shut("it is no name of a host");
    room.report.denied(&host, port, &refusal);
    Denied { host, port, refusal: Box::new(refusal) }
}

/// What was allowed turned out to be something else.
pub(crate) fn withdraw(room: &Room, destination: &Destination, why: &'static str) -> Denied {
    refuse(room, destination, shut(why))
}

fn permit(
    room: &Room,
    destination: Destination,
    allowance: Allowance,
    rules: Arc<EgressRules>,
) -> Result<Permit, Denied> {
    let entered = room.meter.enter(&destination);
    let (seat, toll) = entered.map_err(|why| refuse(room, &destination, used_up(why)))?;
    let toll = Arc::new(toll);
    let permit = Permit { destination, neighbour: None, allowance, rules, toll, _seat: seat };
    room.report.allowed(&permit);
    Ok(permit)
}

/// A permit for a neighbour. What is said to it does not go out, so nothing is counted.
fn visit(
    room: &Room,
    destination: Destination,
    (address, allowance): (Ipv4Addr, Allowance),
    rules: Arc<EgressRules>,
) -> Result<Permit, Denied> {
    let seat = room.meter.seat();
    let seat = seat.map_err(|why| refuse(room, &destination, used_up(why)))?;
    let (neighbour, toll) = (Some(address), Arc::new(Toll::free()));
    let permit = Permit { destination, neighbour, allowance, rules, toll, _seat: seat };
    room.report.allowed(&permit);
    Ok(permit)
}

fn refuse(room: &Room, destination: &Destination, refusal: Refusal) -> Denied {
    let host = destination.host.to_string();
    room.report.denied(&host, destination.port, &refusal);
    Denied { host, port: destination.port, refusal: Box::new(refusal) }
}

fn used_up(why: &'static str) -> Refusal {
    Refusal { reason: Reason::Spent(why), allow_with: None }
}

fn shut(why: &'static str) -> Refusal {
    Refusal { reason: Reason::Forbidden(why), allow_with: None }
}
