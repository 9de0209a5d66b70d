//! A room on a server.
//!
//! What is asked for are the flags; configuration of this machine means nothing there. What only
//! this machine could give is refused by name.

use std::collections::BTreeMap;

use bulkhead::{
    Remote,
    words::{
        LifetimeAsked, LimitsAsked, NetworkAsked, NetworkMode, NewSandbox, OnTimeout as Then,
    },
};
use bulkhead_spec::{Exec, Network};
use serde_json::json;

use super::super::{house, of_client};
use crate::{
    args::{
        rooms::{CreateArgs, LifeArgs, OnTimeout},
        run::{Ask, LimitArgs},
    },
    codes::Code,
    config::{Deadline, Environment},
    engine,
    failure::Failure,
    printer::{Format, Printer},
    wish::variables,
};

/// Makes the room there, and starts a program in it if one was named. Prints its name.
pub(super) fn run(
    args: &CreateArgs,
    remote: &Remote,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let persist = args.life.persist.then_some("--persist");
    if let Some(flag) = foreign(&args.ask).or(persist) {
        let what = format!("`{flag}` is about this machine, and the room is on a server");
        return Err(Failure::new(Code::Argument, what)
            .hint("copy what it needs into the room: bulkhead cp PATH ROOM:PATH"));
    }
    let wanted = wanted(args, environment)?;
    let runtime = engine::runtime()?;
    let made = runtime.block_on(house::create(remote, &wanted))?;
    if !args.ask.workspace.no_workspace {
        printer.detail("the current directory is not shared; bulkhead cp copies");
    }
    let mut program = None;
    if !args.ask.program.is_empty() {
        let exec = Exec { argv: args.ask.program.clone(), ..Exec::default() };
        let started = runtime.block_on(remote.client(&made.id).spawn(exec, None));
        program = Some(started.map_err(|error| of_client(&error))?);
    }
    let text = match Format::from(args.json) {
        Format::Text => format!("{}\n", made.name),
        Format::Json => {
            let made = json!({ "id": made.id, "name": made.name, "program": program });
            format!("{made:#}\n")
        }
    };
    printer.payload(&text)?;
    Ok(0)
}

/// The first flag that names something of this machine, or what a server decides for itself.
fn foreign(ask: &Ask) -> Option<&'static str> {
    let (files, net, walls) = (&ask.files, &ask.net, &ask.walls);
    let said = [
        ("--mount", !files.mounts.is_empty()),
        ("--tmpfs", !files.tmpfs.is_empty()),
        ("--rootfs", files.rootfs.is_some()),
        ("--pull", files.pull.is_some()),
        ("--entrypoint", files.entrypoint.is_some()),
        ("--workdir", files.workdir.is_some()),
        ("--show-env-files", files.show_env_files),
        ("--workspace", ask.workspace.workspace.is_some()),
        ("--read-only", ask.workspace.read_only),
        ("--unprotect", !ask.workspace.unprotect.is_empty()),
        ("--secret", !net.secret.is_empty()),
        ("--budget", !net.budget.is_empty()),
        ("--preset", net.preset.is_some()),
        ("--max-connections", net.max_connections.is_some()),
        ("--max-upload", net.max_upload.is_some()),
        ("--max-download", net.max_download.is_some()),
        ("--max-requests", net.max_requests.is_some()),
        ("--net open", net.net == Some(Network::Open)),
        ("--backend", walls.backend.is_some()),
        ("--runtime", walls.runtime.is_some()),
        ("--no-sandbox", walls.no_sandbox),
        ("--debug-syscalls", walls.debug_syscalls),
        ("--kill-after", ask.limits.kill_after.is_some()),
    ];
    said.into_iter().find_map(|(flag, said)| said.then_some(flag))
}

fn wanted(args: &CreateArgs, environment: &Environment) -> Result<NewSandbox, Failure> {
    let ask = &args.ask;
    let env = variables(&ask.env, environment)?;
    let mut text = BTreeMap::new();
    for (name, value) in env {
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            return Err(Failure::new(Code::Argument, "a variable is not text in UTF-8"));
        };
        text.insert(name, value);
    }
    let required = ask.walls.require.iter().flat_map(|it| &it.0);
    Ok(NewSandbox {
        name: ask.name.clone(),
        labels: args.life.labels.iter().cloned().collect(),
        image: ask.files.image.as_ref().map(ToString::to_string),
        env: text,
        limits: Some(limits(&ask.limits)).filter(|it| *it != LimitsAsked::default()),
        network: network(ask),
        lifetime: Some(lifetime(&args.life)),
        require: required.map(ToString::to_string).collect(),
    })
}

fn limits(args: &LimitArgs) -> LimitsAsked {
    let timeout = match &args.timeout {
        Some(Deadline::After(length)) => Some(length.0.as_secs_f64()),
        Some(Deadline::Never) | None => None,
    };
    LimitsAsked {
        memory_bytes: args.memory.map(|it| it.0),
        cpus: args.cpus.map(|it| f64::from(it.millis()) / 1000.0),
        pids: args.pids,
        disk_bytes: args.disk.map(|it| it.0),
        inodes: args.inodes,
        cpu_seconds: args.cpu_time.map(|it| it.0.as_secs_f64()),
        timeout_seconds: timeout,
        output_bytes: args.output.map(|it| it.0),
        open_files: args.files,
    }
}

fn network(ask: &Ask) -> Option<NetworkAsked> {
    let mode = match ask.net.net {
        Some(Network::None) => Some(NetworkMode::None),
        Some(Network::Proxy) => Some(NetworkMode::Proxy),
        Some(Network::Observe) => Some(NetworkMode::Observe),
        Some(Network::Open) | None => None,
    };
    let asked = NetworkAsked { mode, allow: ask.net.allow.clone(), deny: ask.net.deny.clone() };
    Some(asked).filter(|it| *it != NetworkAsked::default())
}

fn lifetime(args: &LifeArgs) -> LifetimeAsked {
    LifetimeAsked {
        ttl_seconds: args.ttl.map(|it| it.0.as_secs_f64()),
        idle_seconds: args.idle_timeout.map(|it| it.0.as_secs_f64()),
        on_timeout: Some(match args.on_timeout {
            OnTimeout::Kill => Then::Kill,
            OnTimeout::Pause => Then::Pause,
        }),
    }
}
