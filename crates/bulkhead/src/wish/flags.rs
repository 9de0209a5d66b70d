//! The flags as the topmost layer of configuration.

use bulkhead_spec::EnvFiles;

use crate::{
    args::run::Ask,
    codes::Code,
    config::{Choice, Layer, Origin, Sourced},
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
    put(&mut layer, "network", "--net", |it| it.network = ask.walls.net);
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

/// Sets one value; the flag is its origin only if it changed something.
fn put(layer: &mut Layer, key: &'static str, flag: &'static str, set: impl Fn(&mut Layer)) {
    let said = |it: &Layer| crate::config::value_of(it, key).is_some();
    set(layer);
    if said(layer) {
        layer.origins.insert(key, Origin::Flag(flag));
    }
}
