//! What a project's file asks for beyond what the layers below it give.

use std::fmt::Display;

use bulkhead_spec::{EnvFiles, Limits, Network, Preset, Span};

use super::layer::{Choice, Deadline, Layer};

/// Each thing that `project` would widen, in a few words.
pub(super) fn widening(project: &Layer, below: &Layer, defaults: &Limits) -> Vec<String> {
    let mut wider = Vec::new();
    if project.backend.is_some_and(|it| !keeps_walls(it, below.backend.unwrap_or_default())) {
        wider.push(format!("backend `{}`", project.backend.unwrap_or_default().name()));
    }
    // Nobody can tell from its name whether another runtime is as strong.
    if let Some(runtime) =
        project.runtime.as_ref().filter(|it| below.runtime.as_ref() != Some(it))
    {
        wider.push(format!("runtime `{}`", runtime.as_str()));
    }
    if below.network.unwrap_or_default() < project.network.unwrap_or_default() {
        wider.push(format!("network `{}`", name(project.network.unwrap_or_default())));
    }
    if project.image.is_some() && project.image != below.image {
        wider.extend(project.image.iter().map(|it| format!("image `{it}`")));
    }
    let pull = project.pull.filter(|it| below.pull.unwrap_or_default() < *it);
    wider.extend(pull.map(|it| format!("pull `{}`", it.name())));
    let shown = |it: &Layer| it.env_files == Some(EnvFiles::Shown);
    if shown(project) && !shown(below) {
        wider.push("`.env` files shown".to_owned());
    }
    wider.extend(reaching(project, below));
    if project.house.said(&below.house) {
        wider.push("how many rooms there may be, or what of the host they leave".to_owned());
    }
    wider.extend(project.mounts.iter().map(|it| format!("mount `{}`", it.value.written())));
    let names = project.env.keys().map(|name| bulkhead_spec::escape(&name.to_string_lossy()));
    wider.extend(names.map(|name| format!("variable `{name}`")));
    wider.extend(higher(project, below, defaults));
    wider
}

/// What `project` would let out that `below` does not.
fn reaching(project: &Layer, below: &Layer) -> Vec<String> {
    let (asked, had) = (&project.way_out, &below.way_out);
    let mut wider = Vec::new();
    let rank = |it: Option<Preset>| match it.unwrap_or_default() {
        Preset::Locked => 0,
        Preset::Balanced => 1,
        Preset::Open => 2,
    };
    if let Some(preset) = asked.preset.filter(|it| rank(had.preset) < rank(Some(*it))) {
        wider.push(format!("preset `{preset}`"));
    }
    if let Some(network) = asked.network.as_ref().filter(|it| had.network.as_ref() != Some(it))
    {
        wider.push(format!("private network `{network}`"));
    }
    let known = |text: &str| had.allow.iter().any(|it| it.text == text);
    let new = asked.allow.iter().filter(|it| !known(&it.text));
    wider.extend(new.map(|it| format!("host `{}`", bulkhead_spec::escape(&it.text))));
    let secrets = asked.secrets.iter().map(|it| bulkhead_spec::escape(&it.value.to_string()));
    wider.extend(secrets.map(|it| format!("secret `{it}`")));
    let (limits, floor) = (asked.limits, had.limits);
    let raised = [
        raised("connections", limits.connections, floor.connections),
        raised("up", limits.up, floor.up),
        raised("down", limits.down, floor.down),
        raised("requests", limits.requests, floor.requests),
    ];
    wider.extend(raised.into_iter().flatten());
    wider
}

/// Whether a sandbox from `project` is walled in at least as well as one from `below`.
fn keeps_walls(project: Choice, below: Choice) -> bool {
    match (below, project) {
        (Choice::None, _)
        // Each of them is walled, or builds nothing.
        | (Choice::Auto, Choice::Auto | Choice::Native | Choice::Docker | Choice::Podman)
        | (Choice::Native, Choice::Native)
        | (Choice::Docker, Choice::Docker)
        | (Choice::Podman, Choice::Podman) => true,
        (Choice::Auto, Choice::None)
        | (Choice::Native, Choice::Auto | Choice::Docker | Choice::Podman | Choice::None)
        | (Choice::Docker, Choice::Auto | Choice::Native | Choice::Podman | Choice::None)
        | (Choice::Podman, Choice::Auto | Choice::Native | Choice::Docker | Choice::None) => {
            false
        }
    }
}

/// The limits that `project` raises.
fn higher(project: &Layer, below: &Layer, defaults: &Limits) -> Vec<String> {
    let Limits { memory, cpus, pids, disk, inodes, cpu_time, timeout: _, output, files } =
        project.limits;
    let floor = below.limits.or(*defaults);
    let before = match below.timeout {
        Some(Deadline::After(span)) => Some(span),
        Some(Deadline::Never) => None,
        None => defaults.timeout,
    };
    let timeout = match project.timeout {
        Some(Deadline::After(span)) => Some(span),
        Some(Deadline::Never) => Some(Span(std::time::Duration::MAX)),
        None => None,
    };
    let endless = project.timeout == Some(Deadline::Never);
    let time = raised("timeout", timeout, before)
        .map(|it| if endless { "timeout `none`".to_owned() } else { it });
    let grace = Some(below.kill_after.unwrap_or(Layer::KILL_AFTER));
    let found = [
        raised("memory", memory, floor.memory),
        raised("cpus", cpus, floor.cpus),
        raised("pids", pids, floor.pids),
        raised("disk", disk, floor.disk),
        raised("inodes", inodes, floor.inodes),
        raised("cpu-time", cpu_time, floor.cpu_time),
        time,
        raised("output", output, floor.output),
        raised("files", files, floor.files),
        raised("kill-after", project.kill_after, grace),
    ];
    found.into_iter().flatten().collect()
}

fn raised<T: Ord + Display>(what: &str, asked: Option<T>, before: Option<T>) -> Option<String> {
    let (asked, before) = (asked?, before?);
    (before < asked).then(|| format!("{what} of {asked} instead of {before}"))
}

fn name(network: Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Proxy => "proxy",
        Network::Observe => "observe",
        Network::Open => "open",
    }
}
