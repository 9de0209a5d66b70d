//! The flags as the topmost layer of configuration.

use bulkhead_spec::{EgressLimits, EnvFiles, Network};

use crate::{
    args::{net::NetArgs, run::Ask},
    codes::Code,
    config::{Choice, Layer, Origin, Said, Sourced},
    failure::Failure,
    share::Share,
};

/// What the flags say.
pub(super) fn layer(ask: &Ask) -> Result<Layer, Failure> {
    let mut layer = Layer::default();
    let limits = &ask.limits;
    put(&mut layer, "limits.memory", "--memory", |it| it.limits.memory = limits.memory);
    put(&mut layer, "limits.cpus", "--cpus", |it| it.limits.cpus = limits.cpus);
    put(&mut layer, "limits.pids", "--pids", |it| it.limits.pids = limits.pids);
    put(&mut layer, "limits.disk", "--disk", |it| it.limits.disk = limits.disk);
    put(&mut layer, "limits.inodes", "--inodes", |it| it.limits.inodes = limits.inodes);
    put(&mut layer, "limits.cpu-time", "--cpu-time", |it| it.limits.cpu_time = limits.cpu_time);
    put(&mut layer, "limits.timeout", "--timeout", |it| it.timeout = limits.timeout);
    put(&mut layer, "limits.output", "--output", |it| it.limits.output = limits.output);
    put(&mut layer, "limits.files", "--files", |it| it.limits.files = limits.files);
    put(&mut layer, "kill-after", "--kill-after", |it| it.kill_after = limits.kill_after);
    way_out(&mut layer, &ask.net)?;
    put(&mut layer, "image", "--image", |it| it.image.clone_from(&ask.files.image));
    put(&mut layer, "pull", "--pull", |it| it.pull = ask.files.pull);
    let backend = if ask.walls.no_sandbox { Some(Choice::None) } else { ask.walls.backend };
    put(&mut layer, "backend", "--backend", |it| it.backend = backend);
    put(&mut layer, "runtime", "--runtime", |it| it.runtime.clone_from(&ask.walls.runtime));
    let shown = ask.files.show_env_files.then_some(EnvFiles::Shown);
    put(&mut layer, "env-files", "--show-env-files", |it| it.env_files = shown);

    let required = ask.walls.require.iter().flat_map(|it| it.0.iter().copied());
    let origin = Origin::Flag("--require");
    layer.require = required.map(|value| Sourced { value, origin: origin.clone() }).collect();
    for text in &ask.files.mounts {
        let share =
            Share::parse(text).map_err(|error| Failure::from_error(Code::Argument, &error))?;
        layer.mounts.push(Sourced { value: share, origin: Origin::Flag("--mount") });
    }
    Ok(layer)
}

/// What the flags say about the way out.
pub(super) fn way_out(layer: &mut Layer, net: &NetArgs) -> Result<(), Failure> {
    put(layer, "network", "--net", |it| it.network = net.net);
    if let (Some(Network::None | Network::Open), Some(flag)) = (net.net, net.first_rule()) {
        let what = format!("{flag} speaks of a gateway, and with this --net there is none");
        let failure = Failure::new(Code::Argument, what);
        return Err(failure.hint("leave out --net, or say --net proxy"));
    }
    let invalid =
        |error: bulkhead_spec::InvalidRule| Failure::from_error(Code::Argument, &error);
    for text in &net.allow {
        let said = Said::allowed(text, &Origin::Flag("--allow")).map_err(invalid)?;
        layer.way_out.allow.push(said);
    }
    for text in &net.deny {
        let said = Said::denied(text, &Origin::Flag("--deny")).map_err(invalid)?;
        layer.way_out.deny.push(said);
    }
    let origin = Origin::Flag("--secret");
    let secrets = net.secret.iter().cloned();
    layer.way_out.secrets =
        secrets.map(|value| Sourced { value, origin: origin.clone() }).collect();
    let origin = Origin::Flag("--budget");
    let budgets = net.budget.iter().cloned();
    layer.way_out.budgets =
        budgets.map(|value| Sourced { value, origin: origin.clone() }).collect();
    put(layer, "egress.preset", "--preset", |it| it.way_out.preset = net.preset);
    put(layer, "egress.network", "--network", |it| it.way_out.network.clone_from(&net.network));
    let of = |layer: &mut Layer, key, flag, set: &dyn Fn(&mut EgressLimits)| {
        put(layer, key, flag, |it| set(&mut it.way_out.limits));
    };
    of(layer, "egress.connections", "--max-connections", &|it| {
        it.connections = net.max_connections;
    });
    of(layer, "egress.up", "--max-upload", &|it| it.up = net.max_upload);
    of(layer, "egress.down", "--max-download", &|it| it.down = net.max_download);
    of(layer, "egress.requests", "--max-requests", &|it| it.requests = net.max_requests);
    layer.imply_network();
    Ok(())
}

/// Sets one value; the flag is its origin only if it changed something.
fn put(layer: &mut Layer, key: &'static str, flag: &'static str, set: impl Fn(&mut Layer)) {
    let said = |it: &Layer| crate::config::value_of(it, key).is_some();
    set(layer);
    if said(layer) {
        layer.origins.insert(key, Origin::Flag(flag));
    }
}
