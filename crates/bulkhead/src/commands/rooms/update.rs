//! `bulkhead update`: a room that lives is different from now on.

use bulkhead_engine::rooms::{Client, Lifetime, Then, Update};
use bulkhead_spec::{Change, InvalidRule, Limits, Sourced, allowing, denying};

use super::{here::Here, of_client};
use crate::{
    args::{pool::UpdateArgs, rooms::OnTimeout},
    codes::Code,
    config::Environment,
    engine,
    failure::Failure,
    printer::Printer,
    wish::variables,
};

/// Where a rule came from that was said while a room lived.
const ORIGIN: &str = "bulkhead update";

/// Changes rooms, and prints their names.
pub(crate) fn run(
    args: &UpdateArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let change = change(args, environment)?;
    let nothing = args.ttl.is_none()
        && args.idle_timeout.is_none()
        && args.on_timeout.is_none()
        && args.labels.is_empty();
    if nothing && change == Change::default() {
        return Err(Failure::new(Code::Argument, "nothing was said that is to be different")
            .hint("bulkhead update --help lists what can be"));
    }
    let rooms = Here::open(environment, printer)?;
    let runtime = engine::runtime()?;
    for room in &args.rooms {
        let (listed, client) = rooms.living(room)?;
        runtime.block_on(async {
            let update = Update {
                change: change.clone(),
                lifetime: lifetime(args, &client).await?,
                labels: args.labels.iter().cloned().collect(),
            };
            client.update(update).await.map_err(|error| of_client(&error))
        })?;
        printer.payload(&format!("{}\n", listed.record.name))?;
    }
    Ok(0)
}

fn change(args: &UpdateArgs, environment: &Environment) -> Result<Change, Failure> {
    let UpdateArgs { memory, cpus, pids, .. } = *args;
    Ok(Change {
        env: variables(&args.env, environment)?,
        without: args.unset.iter().map(Into::into).collect(),
        limits: Limits { memory, cpus, pids, ..Limits::default() },
        allow: rules(&args.allow, allowing)?,
        deny: rules(&args.deny, denying)?,
    })
}

type Understand = fn(&str, &str) -> Result<Vec<Sourced>, InvalidRule>;

fn rules(texts: &[String], understand: Understand) -> Result<Vec<Sourced>, Failure> {
    let mut rules = Vec::new();
    for text in texts {
        let said = understand(text, ORIGIN);
        rules.extend(said.map_err(|error| Failure::from_error(Code::Argument, &error))?);
    }
    Ok(rules)
}

/// How long the room lives, if anything was said about it; the rest stays as it is.
async fn lifetime(args: &UpdateArgs, client: &Client) -> Result<Option<Lifetime>, Failure> {
    if args.ttl.is_none() && args.idle_timeout.is_none() && args.on_timeout.is_none() {
        return Ok(None);
    }
    let before = client.inspect().await.map_err(|error| of_client(&error))?.lifetime;
    let then = args.on_timeout.map(|it| match it {
        OnTimeout::Kill => Then::Kill,
        OnTimeout::Pause => Then::Pause,
    });
    Ok(Some(Lifetime {
        ttl: args.ttl.or(before.ttl),
        idle: args.idle_timeout.or(before.idle),
        then: then.unwrap_or(before.then),
    }))
}
