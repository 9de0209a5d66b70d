//! A sandbox to be made.

use std::time::Duration;

use bulkhead_server::words::{LifetimeAsked, LimitsAsked, NetworkAsked, NewSandbox, OnTimeout};

use super::{Host, Sandbox, SandboxError};

/// A sandbox to be made: the least, unless more is asked for. What is asked for is held, or nothing
/// is made.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is made before `create`"]
pub struct SandboxBuilder {
    host: Option<Host>,
    wanted: NewSandbox,
}

impl SandboxBuilder {
    /// Where it is to live; in an engine of its own, in this process, if not said.
    pub fn on(mut self, host: &Host) -> Self {
        self.host = Some(host.clone());
        self
    }

    /// What it is called.
    pub fn name(mut self, name: &str) -> Self {
        self.wanted.name = Some(name.to_owned());
        self
    }

    /// Something to find it by.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.wanted.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The image that is its root; the host's own programs, read-only, if not said.
    pub fn image(mut self, image: &str) -> Self {
        self.wanted.image = Some(image.to_owned());
        self
    }

    /// A variable of all its programs.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.wanted.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Memory of the whole sandbox, in bytes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits().memory_bytes = Some(bytes);
        self
    }

    /// Processors that it may keep busy.
    pub fn cpus(mut self, count: f64) -> Self {
        self.limits().cpus = Some(count);
        self
    }

    /// Live processes and threads.
    pub fn pids(mut self, count: u32) -> Self {
        self.limits().pids = Some(count);
        self
    }

    /// What it writes, in bytes.
    pub fn disk(mut self, bytes: u64) -> Self {
        self.limits().disk_bytes = Some(bytes);
        self
    }

    /// How long one of its programs may run, unless it says less itself.
    pub fn program_timeout(mut self, length: Duration) -> Self {
        self.limits().timeout_seconds = Some(length.as_secs_f64());
        self
    }

    /// Lets a host be reached: a name, `*.name`, or a group such as `npm`.
    pub fn allow(mut self, host: &str) -> Self {
        self.network().allow.push(host.to_owned());
        self
    }

    /// Lets a host not be reached, whatever else allows it.
    pub fn deny(mut self, host: &str) -> Self {
        self.network().deny.push(host.to_owned());
        self
    }

    /// How long it lives at most.
    pub fn ttl(mut self, length: Duration) -> Self {
        self.lifetime().ttl_seconds = Some(length.as_secs_f64());
        self
    }

    /// How long it lives with nobody connected and nothing running.
    pub fn idle(mut self, length: Duration) -> Self {
        self.lifetime().idle_seconds = Some(length.as_secs_f64());
        self
    }

    /// It is frozen when its time is over, instead of ended.
    pub fn pause_on_timeout(mut self) -> Self {
        self.lifetime().on_timeout = Some(OnTimeout::Pause);
        self
    }

    /// A guarantee to insist on, by its name: `MemoryBounded`.
    pub fn require(mut self, guarantee: &str) -> Self {
        self.wanted.require.push(guarantee.to_owned());
        self
    }

    /// Makes it.
    pub async fn create(self) -> Result<Sandbox, SandboxError> {
        let host = match self.host {
            Some(host) => host,
            None => Host::local()?,
        };
        host.create(self.wanted).await
    }

    fn limits(&mut self) -> &mut LimitsAsked {
        self.wanted.limits.get_or_insert_default()
    }

    fn network(&mut self) -> &mut NetworkAsked {
        self.wanted.network.get_or_insert_default()
    }

    fn lifetime(&mut self) -> &mut LifetimeAsked {
        self.wanted.lifetime.get_or_insert_default()
    }
}
