//! What must be known of a plan before a sandbox for it can be begun.

use std::path::Path;

use bulkhead_linux::midwife::Network;
use bulkhead_policy::Plan;
use bulkhead_spec as spec;

/// What sets sandboxes apart from their first step on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) network: Network,
    pub(super) root: Parts,
    pub(super) settings: Settings,
}

/// How its `/etc` comes about, if its root is the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    /// It is shown, if it was laid.
    Shown,
    /// It is made, because something of the plan's is to lie in it.
    Made,
}

/// What its root is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// The host's own programs and settings.
    Host,
    /// Another directory.
    Other,
}

impl Shape {
    /// What most plans ask for.
    pub(super) const USUAL: Self =
        Self { network: Network::Own, root: Parts::Host, settings: Settings::Shown };

    pub(super) fn of(plan: &Plan) -> Self {
        let network = match plan.network() {
            spec::Network::None | spec::Network::Proxy | spec::Network::Observe => Network::Own,
            spec::Network::Open => Network::Host,
        };
        let root = match plan.root() {
            spec::Root::Host => Parts::Host,
            spec::Root::Directory(_) | spec::Root::Image(_) => Parts::Other,
        };
        let within = |path: &Path| path.starts_with("/etc");
        let mounts = plan.mounts().iter().map(|it| it.to.as_path());
        let workspace = plan.workspace().map(|it| it.dir.as_path());
        let tmpfs = plan.tmpfs().iter().map(spec::GuestPath::as_path);
        let mut places = mounts.chain(workspace).chain(tmpfs).chain([plan.home().as_path()]);
        let settings = if places.any(within) { Settings::Made } else { Settings::Shown };
        Self { network, root, settings }
    }
}
