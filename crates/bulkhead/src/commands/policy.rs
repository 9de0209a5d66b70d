//! `bulkhead policy …`: what may leave sandboxes, asked and changed.

mod check;
mod live;
mod log;

use bulkhead_policy::{EgressRules, resolve};
use bulkhead_spec::{Egress, Network, Sourced, Spec, escape};
use serde_json::json;

use super::current_dir;
use crate::{
    args::{
        FromArgs,
        net::NetArgs,
        policy::{ListArgs, PolicyVerb},
    },
    codes::Code,
    config::{Config, Environment, ProjectFrom, Sources},
    failure::Failure,
    printer::Printer,
    wish,
};

/// Does what is asked.
pub(crate) fn run(
    verb: &PolicyVerb,
    environment: Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    match verb {
        PolicyVerb::Check(args) => check::run(args, environment, printer),
        PolicyVerb::Ls(args) => list(args, environment, printer),
        PolicyVerb::Allow(args) => live::allow(args, &environment, printer),
        PolicyVerb::Deny(args) => live::deny(args, &environment, printer),
        PolicyVerb::Rm(args) => live::remove(args, &environment, printer),
        PolicyVerb::Log(args) => log::run(args, &environment, printer),
        PolicyVerb::Init(args) => log::init(args, &environment, printer),
    }
}

/// What holds for a sandbox that is started here.
struct Holds {
    network: Network,
    rules: EgressRules,
}

/// The rules of the configuration, with those of `net` on top.
fn configured(
    from: &FromArgs,
    net: &NetArgs,
    environment: Environment,
) -> Result<Holds, Failure> {
    let project = match &from.config {
        Some(path) => ProjectFrom::Named(path.clone()),
        None => ProjectFrom::Workspace(current_dir()?),
    };
    let sources = Sources::of(project, &environment);
    let mut config = Config::load(environment, &sources)?;
    config.check_trust()?;
    config.layer = wish::net_layer(net)?.over(std::mem::take(&mut config.layer));
    let network = config.layer.network.unwrap_or_default();
    let egress = match network {
        Network::Proxy | Network::Observe => config.layer.way_out.asked(),
        Network::None | Network::Open => Egress::default(),
    };
    let spec = Spec { network, egress, ..Spec::default() };
    let plan = resolve(spec, &config.policy(config.defaults))
        .map_err(|denial| Failure::from_error(Code::Denied, &denial))?;
    Ok(Holds { network, rules: plan.egress().rules().clone() })
}

fn list(args: &ListArgs, environment: Environment, printer: &Printer) -> Result<u8, Failure> {
    let (allow, deny) = if let Some(name) = &args.sandbox {
        live::rules(name, &environment)?
    } else {
        let holds = configured(&args.from, &NetArgs::default(), environment)?;
        if !args.json && matches!(holds.network, Network::None | Network::Open) {
            let network = if holds.network == Network::None { "none" } else { "open" };
            printer.note(&format!("the network is `{network}`: no rules are asked"));
        }
        (holds.rules.allowed().to_vec(), holds.rules.denied().to_vec())
    };
    if args.json {
        printer.payload(&format!("{:#}\n", json!({ "allow": allow, "deny": deny })))?;
        return Ok(0);
    }
    printer.payload(&listed(&allow, &deny))?;
    Ok(0)
}

/// The rules, a line each.
fn listed(allow: &[Sourced], deny: &[Sourced]) -> String {
    let line = |word: &str, it: &Sourced| {
        format!("{word} {:40} {}\n", escape(&it.rule.to_string()), escape(&it.origin))
    };
    let deny = deny.iter().map(|it| line("deny ", it));
    deny.chain(allow.iter().map(|it| line("allow", it))).collect()
}
