//! What a case file says. A `Spec` and an `Exec` are never read from a file, so the tests have
//! words of their own for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bulkhead_policy::{EgressCeiling, Policy};
use bulkhead_spec::{
    Access, Egress, EnvFiles, Exec, Guarantees, GuestPath, HostPath, ImageRef, ImageSource,
    Limits, Mount, Network, Pull, Root, Span, Spec, Syscalls, Walls, Workspace,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What the case shows, in a sentence.
    pub(crate) claim: String,
    #[serde(default)]
    pub(crate) ask: Ask,
    /// Several layers, each narrowing the one before.
    #[serde(default)]
    pub(crate) policy: Vec<Layer>,
    /// If there is one, the answer is about it and not about the room.
    pub(crate) exec: Option<Run>,
    /// If it is there, the answer is what a backend that upholds this makes of the plan.
    pub(crate) upheld: Option<Guarantees>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ask {
    root: Option<HostPath>,
    image: Option<String>,
    workspace: Option<Share>,
    mounts: Vec<Share>,
    tmpfs: Vec<GuestPath>,
    home: Option<GuestPath>,
    limits: Limits,
    network: Network,
    env: BTreeMap<String, String>,
    syscalls: Syscalls,
    walls: Wanted,
    require: Guarantees,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    from: HostPath,
    to: Option<GuestPath>,
    #[serde(default)]
    access: Access,
    #[serde(default)]
    env_files: EnvFiles,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Wanted {
    #[default]
    Up,
    Waived,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Layer {
    ceiling: Limits,
    defaults: Limits,
    network: Option<Network>,
    mountable: Option<BTreeSet<HostPath>>,
    images: Option<Vec<String>>,
    require: Guarantees,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    argv: Vec<String>,
    dir: Option<GuestPath>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout: Option<Span>,
}

impl From<Ask> for Spec {
    fn from(ask: Ask) -> Self {
        let mount = |it: Share| {
            let to = it.to.unwrap_or_else(|| it.from.to_string().parse().unwrap());
            Mount { from: it.from, to, access: it.access }
        };
        let workspace = |it: Share| Workspace {
            dir: it.from,
            access: it.access,
            env_files: it.env_files,
            unprotected: Vec::new(),
        };
        Self {
            home_files: BTreeMap::new(),
            root: match ask.image {
                Some(image) => Root::Image(image_ref(&image)),
                None => ask.root.map_or(Root::Host, Root::Directory),
            },
            workspace: ask.workspace.map(workspace),
            mounts: ask.mounts.into_iter().map(mount).collect(),
            tmpfs: ask.tmpfs,
            home: ask.home,
            limits: ask.limits,
            network: ask.network,
            egress: Egress::default(),
            env: ask.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            fallback_env: BTreeMap::new(),
            syscalls: ask.syscalls,
            walls: match ask.walls {
                Wanted::Up => Walls::Up,
                Wanted::Waived => Walls::Waived,
            },
            require: ask.require,
        }
    }
}

fn image_ref(text: &str) -> ImageRef {
    let source = match text.strip_prefix("docker-daemon:") {
        Some(name) => ImageSource::Daemon(name.parse().unwrap()),
        None => ImageSource::Registry(text.parse().unwrap()),
    };
    ImageRef { source, pull: Pull::Missing }
}

impl From<Layer> for Policy {
    fn from(layer: Layer) -> Self {
        Self {
            ceiling: layer.ceiling,
            defaults: layer.defaults,
            network: layer.network.unwrap_or(Network::Open),
            egress: EgressCeiling::default(),
            mountable: layer.mountable,
            images: layer
                .images
                .map(|it| it.iter().map(|rule| rule.parse().unwrap()).collect()),
            require: layer.require,
        }
    }
}

impl From<Run> for Exec {
    fn from(run: Run) -> Self {
        Self {
            argv: run.argv.into_iter().map(Into::into).collect(),
            dir: run.dir,
            env: run.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            timeout: run.timeout,
            grace: Duration::from_secs(1),
            ..Self::default()
        }
    }
}
