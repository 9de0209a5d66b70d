//! Which backend builds a plan.

use bulkhead_backends::{Backend, BackendError, Finding, State};
use bulkhead_policy::{Disk, Plan, Settled};
use bulkhead_spec::{Guarantee, Guarantees, Network};

use crate::RunError;

/// The first backend that upholds everything the plan requires, and the plan as it can build it.
///
/// There is no second best: if none does, the plan is not built.
pub(crate) fn place<'a>(
    plan: &Plan,
    backends: &'a [Box<dyn Backend>],
    disk: &Disk,
) -> Result<(&'a dyn Backend, Settled, Guarantees), RunError> {
    let mut nearest: Option<(Guarantees, Vec<String>)> = None;
    let mut unable = None;
    for backend in backends {
        let Some(findings) = findings(backend.as_ref(), disk) else {
            unable = Some(backend.name());
            continue;
        };
        let upheld = upheld_by(&findings);
        match plan.clone().settle(&upheld) {
            Ok(settled) => {
                let upheld = in_force(plan.network(), &upheld);
                return Ok((backend.as_ref(), settled, upheld));
            }
            Err(lacking) => {
                let because = reasons(backend.name(), &lacking, &findings);
                let count = lacking.iter().count();
                match &mut nearest {
                    // As near as another: each has its own way to be helped.
                    Some((least, known)) if *least == lacking => known.extend(because),
                    Some((least, _)) if least.iter().count() <= count => {}
                    Some(_) | None => nearest = Some((lacking, because)),
                }
            }
        }
    }
    if let (None, Some(backend)) = (&nearest, unable) {
        let what = "a sandbox whose disk is kept";
        return Err(BackendError::Unsupported { backend, what }.into());
    }
    let (lacking, because) = nearest.unwrap_or_else(|| (plan.require().clone(), Vec::new()));
    Err(RunError::Unplaced { lacking, because })
}

/// What `backend` finds for sandboxes on `disk`; nothing if it cannot build them.
fn findings(backend: &dyn Backend, disk: &Disk) -> Option<Vec<Finding>> {
    let mut findings = backend.findings();
    if disk.kept.is_some() {
        let kept = backend.keeps()?;
        findings.retain(|it| it.guarantee != kept.guarantee);
        findings.push(kept);
    }
    Some(findings)
}

/// What a backend upholds, and what the engine upholds for all of them.
pub fn upheld_by(findings: &[Finding]) -> Guarantees {
    let upheld = |it: &&Finding| matches!(it.state, State::Upheld { .. });
    let backend = findings.iter().filter(upheld).map(|it| it.guarantee);
    backend.chain([Guarantee::OutputBounded]).collect()
}

/// Those of the promises that hold with this network: one that was asked to be open is.
fn in_force(network: Network, upheld: &Guarantees) -> Guarantees {
    let holds = |it: &Guarantee| match network {
        Network::None => true,
        Network::Proxy | Network::Observe => *it != Guarantee::NoNetwork,
        Network::Open => {
            !matches!(it, Guarantee::NoNetwork | Guarantee::EgressOnlyThroughProxy)
        }
    };
    upheld.iter().filter(holds).collect()
}

fn reasons(backend: &str, lacking: &Guarantees, findings: &[Finding]) -> Vec<String> {
    let reason = |finding: &Finding| match &finding.state {
        State::Missing { why, hint } if lacking.contains(finding.guarantee) => {
            let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            Some(format!("{}: {backend} cannot, {why}{hint}", finding.guarantee))
        }
        State::Missing { .. } | State::Upheld { .. } => None,
    };
    findings.iter().filter_map(reason).collect()
}
