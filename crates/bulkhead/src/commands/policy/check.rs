//! `bulkhead policy check`: may this be reached?

use bulkhead_engine::way_out::{Ask, Reply};
use bulkhead_policy::{Refusal, Verdict};
use bulkhead_spec::{Host, Network, Sourced, escape};
use serde_json::json;

use super::{Holds, configured, live};
use crate::{
    args::policy::CheckArgs, codes::Code, config::Environment, failure::Failure,
    printer::Printer,
};

/// What is to be reached.
struct Wanted {
    host: Host,
    port: u16,
    /// The path and what follows, of a URL that has one.
    target: Option<String>,
}

/// Answers with 0 for yes and 1 for no.
pub(super) fn run(
    args: &CheckArgs,
    environment: Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let wanted = wanted(&args.url)?;
    let (allowed, why, hint) = match &args.sandbox {
        Some(name) => {
            let ask = Ask::Check { host: wanted.host.to_string(), port: wanted.port };
            match live::ask(name, &ask, &environment)? {
                Reply::Verdict { allowed, why } => (allowed, why, None),
                Reply::Refused { why } => return Err(Failure::new(Code::Argument, why)),
                Reply::Rules { .. } => {
                    return Err(Failure::new(
                        Code::System,
                        "the sandbox answered something else",
                    ));
                }
            }
        }
        None => told(&wanted, args, environment)?,
    };
    if args.json {
        let answer = json!({
            "host": wanted.host, "port": wanted.port, "allowed": allowed, "why": why,
            "allow_with": hint,
        });
        printer.payload(&format!("{answer:#}\n"))?;
        return Ok(u8::from(!allowed));
    }
    let word = if allowed { "allowed" } else { "denied" };
    let (host, port) = (escape(&wanted.host.to_string()), wanted.port);
    printer.payload(&format!("{word} {host}:{port}: {}\n", escape(&why)))?;
    if let Some(rule) = hint {
        printer.note(&format!("allow it with: --allow '{}'", escape(&rule)));
    }
    Ok(u8::from(!allowed))
}

/// What the configuration says.
fn told(
    wanted: &Wanted,
    args: &CheckArgs,
    environment: Environment,
) -> Result<(bool, String, Option<String>), Failure> {
    let Holds { network, rules } = configured(&args.from, &args.net, environment)?;
    match network {
        Network::None => return Ok((false, "the network is `none`".to_owned(), None)),
        Network::Open => return Ok((true, "the network is `open`".to_owned(), None)),
        Network::Proxy | Network::Observe => {}
    }
    let verdict = match &wanted.target {
        Some(target) => rules.judge_request(&wanted.host, wanted.port, &args.method, target),
        None => rules.judge(&wanted.host, wanted.port),
    };
    Ok(match verdict {
        Verdict::Allowed(allowance) => {
            let Sourced { rule, origin } = allowance.by;
            (true, format!("by `{rule}` ({origin})"), None)
        }
        Verdict::Denied(Refusal { reason, allow_with }) => {
            (false, reason.to_string(), allow_with)
        }
    })
}

fn wanted(text: &str) -> Result<Wanted, Failure> {
    let refused = |why: String| {
        Failure::new(Code::Argument, format!("`{}` cannot be reached", escape(text)))
            .because(why)
    };
    let (usual, rest) = match text.split_once("://") {
        Some(("https" | "wss", rest)) => (443, rest),
        Some(("http" | "ws", rest)) => (80, rest),
        Some((scheme, _)) => {
            return Err(refused(format!("`{}` is neither http nor https", escape(scheme))));
        }
        None => (443, text),
    };
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at_checked(at).unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let port = port.parse().map_err(|_| refused("its port is no number".to_owned()))?;
            (host, port)
        }
        Some(_) | None => (authority, usual),
    };
    let host = host.parse().map_err(|error| refused(format!("{error}")))?;
    let url = text.contains("://");
    let target = match target {
        "" if url => Some("/".to_owned()),
        "" => None,
        path if path.starts_with('/') => Some(path.to_owned()),
        query => Some(format!("/{query}")),
    };
    Ok(Wanted { host, port, target })
}
