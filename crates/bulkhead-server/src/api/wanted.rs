//! A sandbox that is wanted, as a record that a shim can build.
//!
//! Only named fields reach the record: nothing of a request is passed on to a backend as it is, and
//! no path of the host can be named (THREATS E7).

use bulkhead_engine::rooms::Record;
use bulkhead_spec::{
    Bytes, Cpus, Guarantee, ImageRef, ImageSource, InvalidReference, Limits, Network, Pull,
    Root, Sourced, Span,
};

use super::{
    ask::seconds,
    problem::Problem,
    room::is_name,
    sandboxes::lifetime,
    view::OWN,
    words::{LimitsAsked, NetworkAsked, NetworkMode, NewSandbox},
};
use crate::house::Base;

/// Who says so, in records and refusals.
const ORIGIN: &str = "the request";
/// How a name begins that is for the local container engine.
pub(crate) const DAEMON: &str = "docker-daemon:";
/// The most of anything that is counted.
const MOST: usize = 256;

/// The record of the room `id` as it is `wanted`.
pub(super) fn record(base: &Base, id: &str, wanted: NewSandbox) -> Result<Record, Problem> {
    let mut spec = base.spec.clone();
    if let Some(image) = &wanted.image {
        let odd = |error| Problem::malformed(format!("`image`: {error}"));
        spec.root = Root::Image(self::image(image).map_err(odd)?);
    }
    for (name, value) in wanted.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Problem::malformed("`env`: a name has no `=`, and nothing has a NUL"));
        }
        spec.env.insert(name.into(), value.into());
    }
    if let Some(asked) = &wanted.limits {
        spec.limits = limits(asked)?.or(spec.limits);
    }
    if let Some(asked) = &wanted.network {
        (spec.network, spec.egress) = network(asked, &base.spec)?;
    }
    let required = wanted.require.iter().map(|it| it.parse::<Guarantee>());
    let required: Result<Vec<_>, _> = required.collect();
    let required =
        required.map_err(|error| Problem::malformed(format!("`require`: {error}")))?;
    spec.require = spec.require.iter().chain(required).collect();
    let name = wanted.name.unwrap_or_else(|| id.to_owned());
    if !is_name(&name) {
        return Err(Problem::malformed(
            "`name` has letters, digits, `-`, `_` and `.`, at most 64, a letter or digit first",
        ));
    }
    let mut record = base.record(id, spec);
    record.name = name;
    record.quota.clone_from(&base.quota);
    record.lifetime = lifetime(&wanted.lifetime.unwrap_or_default())?;
    for (key, value) in wanted.labels {
        check_label(&key, &value)?;
        record.labels.insert(key, value);
    }
    if MOST < record.labels.len() {
        return Err(Problem::malformed(format!("there are at most {MOST} labels")));
    }
    Ok(record)
}

/// An image of a registry or of the local container engine; files of the host have no name here.
pub(crate) fn image(text: &str) -> Result<ImageRef, InvalidReference> {
    let source = match text.strip_prefix(DAEMON) {
        Some(name) => ImageSource::Daemon(name.parse()?),
        None => ImageSource::Registry(text.parse()?),
    };
    Ok(ImageRef { source, pull: Pull::default() })
}

fn check_label(key: &str, value: &str) -> Result<(), Problem> {
    let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.' | '/');
    if key.starts_with(OWN) {
        return Err(Problem::malformed(format!("labels with `{OWN}` are Bulkhead's own")));
    }
    if key.is_empty() || 128 < key.len() || 1024 < value.len() || !key.chars().all(fine) {
        return Err(Problem::malformed(
            "the key of a label has letters, digits, `-`, `_`, `.` and `/`, at most 128; its \
             value has at most 1024 bytes",
        ));
    }
    Ok(())
}

fn limits(asked: &LimitsAsked) -> Result<Limits, Problem> {
    let span =
        |name, length: Option<f64>| length.map(|it| seconds(name, it).map(Span)).transpose();
    Ok(Limits {
        memory: asked.memory_bytes.map(Bytes),
        cpus: asked.cpus.map(cpus).transpose()?,
        pids: asked.pids,
        disk: asked.disk_bytes.map(Bytes),
        inodes: asked.inodes,
        cpu_time: span("cpu_seconds", asked.cpu_seconds)?,
        timeout: span("timeout_seconds", asked.timeout_seconds)?,
        output: asked.output_bytes.map(Bytes),
        files: asked.open_files,
    })
}

fn cpus(count: f64) -> Result<Cpus, Problem> {
    let bad = || Problem::malformed("`cpus` is a number such as 1.5");
    if !count.is_finite() || !(0.0..=1e6).contains(&count) {
        return Err(bad());
    }
    format!("{count:.3}").parse().map_err(|_| bad())
}

/// The way out: what the request allows on top of what the server's own rooms have. The policy has
/// the last word.
fn network(
    asked: &NetworkAsked,
    base: &bulkhead_spec::Spec,
) -> Result<(Network, bulkhead_spec::Egress), Problem> {
    let mut egress = base.egress.clone();
    let rules = |texts: &[String], read: fn(&str, &str) -> Result<Vec<Sourced>, _>| {
        if MOST < texts.len() {
            return Err(Problem::malformed(format!("there are at most {MOST} rules")));
        }
        let mut all = Vec::new();
        for text in texts {
            let read = read(text, ORIGIN);
            let read = read.map_err(|error: bulkhead_spec::InvalidRule| {
                Problem::malformed(format!("`network`: {error}"))
            })?;
            all.extend(read);
        }
        Ok(all)
    };
    egress.allow.extend(rules(&asked.allow, bulkhead_spec::allowing)?);
    egress.deny.extend(rules(&asked.deny, bulkhead_spec::denying)?);
    let network = match asked.mode {
        Some(NetworkMode::None) => Network::None,
        Some(NetworkMode::Proxy) => Network::Proxy,
        Some(NetworkMode::Observe) => Network::Observe,
        None if asked.allow.is_empty() => base.network,
        None => base.network.max(Network::Proxy),
    };
    if network == Network::None {
        if !asked.allow.is_empty() {
            return Err(Problem::malformed(
                "`network`: nothing can be allowed with mode `none`",
            ));
        }
        egress = bulkhead_spec::Egress::default();
    }
    Ok((network, egress))
}
