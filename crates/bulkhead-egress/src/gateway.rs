//! The gateway of one sandbox, alive.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use bulkhead_policy::EgressRules;
use bulkhead_spec::{EgressEvent, EgressUsage};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::{Builder, Handle},
    sync::oneshot,
    task::AbortHandle,
};

use crate::{
    BoundSecret, Entrances, GatewayPlan, authority::Authority, dns, entrance, report::Report,
    room::Room, wire::Wire,
};

/// The way out of one sandbox.
///
/// It runs on a thread of its own, so a sandbox that keeps it busy holds up nobody else.
///
/// # Guarantees
/// Nothing leaves by it that its rules do not allow. When it is dropped, every connection ends
/// and every entrance is shut.
pub struct Gateway {
    room: Arc<Room>,
    runtime: Handle,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartFailed {
    /// Its thread or its sockets.
    #[error("could not start the egress gateway")]
    Io(#[from] io::Error),
    /// The certificate authority of the sandbox.
    #[error("could not make a certificate authority for the sandbox: {0}")]
    Authority(String),
    /// The certificate authorities of the host.
    #[error("could not read the certificate authorities of the host: {0}")]
    Roots(String),
}

/// Why headers are not set.
#[derive(Debug, thiserror::Error)]
pub enum HeadersRefused {
    /// Nothing that passes can be read.
    #[error("the sandbox was made without headers to set, and its programs trust no gateway")]
    Untrusted,
    /// One of them cannot be.
    #[error("a header cannot be set: {0}")]
    Odd(#[from] io::Error),
}

impl Gateway {
    /// Starts to serve `entrances` by `plan`; what there is to say is said to `sink`.
    pub fn start(
        plan: GatewayPlan,
        entrances: Entrances,
        sink: impl Fn(EgressEvent) + Send + Sync + 'static,
    ) -> Result<Self, StartFailed> {
        if !plan.secrets.is_empty() {
            no_core_dumps()?;
        }
        let room = Arc::new(Room::new(plan, Arc::new(Report::new(sink)))?);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let entered = handle.enter();
        let tasks = entrances.open(&room)?;
        drop(entered);
        let (stop, stopped) = oneshot::channel::<()>();
        let thread =
            thread::Builder::new().name("bulkhead-egress".to_owned()).spawn(move || {
                // Told to stop or nobody left to tell: both are the end.
                drop(runtime.block_on(stopped));
                drop(tasks);
                runtime.shutdown_background();
            })?;
        Ok(Self {
            room,
            runtime: handle,
            stop: Mutex::new(Some(stop)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Serves `entrances` besides those that it has: for a sandbox that must know the gateway's
    /// certificate and placeholders before its sockets can be made.
    pub fn open(&self, entrances: Entrances) -> io::Result<()> {
        let _entered = self.runtime.enter();
        entrances.open(&self.room)?.detach_all();
        Ok(())
    }

    /// Serves a connection to `wanted` that came by another way than an entrance, such as a
    /// channel from a container. At `127.0.0.1` the ports of both proxies are theirs.
    pub fn adopt(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        wanted: SocketAddr,
    ) {
        let _entered = self.runtime.enter();
        entrance::adopt(&self.room, Wire::other(stream), wanted);
    }

    /// Runs `task` on the gateway's thread, until it ends or the gateway does.
    pub fn attend(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// The answer to a question for a name, as it would go over UDP; none to what is no question.
    pub fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        dns::answer(&self.room, question)
    }

    /// The rules of this moment.
    pub fn rules(&self) -> Arc<EgressRules> {
        self.room.rules()
    }

    /// Replaces the rules. What is decided from here on is decided by these; connections that
    /// they do not allow are cut.
    pub fn replace_rules(&self, rules: EgressRules) {
        self.room.replace_rules(rules);
    }

    /// Has `headers` set on requests from now on, instead of those whose names begin with
    /// `prefix`; to be followed by [`Gateway::replace_rules`], which ends connections that passed
    /// unread and must not any more.
    ///
    /// Only where programs inside trust the gateway already: no certificate gets into a sandbox
    /// that lives.
    pub fn set_headers(
        &self,
        prefix: &str,
        headers: Vec<BoundSecret>,
    ) -> Result<(), HeadersRefused> {
        if !headers.is_empty() {
            if self.room.authority.is_none() {
                return Err(HeadersRefused::Untrusted);
            }
            no_core_dumps()?;
        }
        Ok(self.room.set_headers(prefix, headers)?)
    }

    /// What has passed so far, and who was refused.
    pub fn usage(&self) -> EgressUsage {
        EgressUsage { denied: self.room.report.all_denied(), ..self.room.meter.usage() }
    }

    /// The variables that stand for secrets inside, with the placeholders that they hold.
    pub fn placeholders(&self) -> BTreeMap<String, String> {
        self.room.vault().placeholders()
    }

    /// The certificate authority that programs inside must trust, in PEM; none if no host needs
    /// to be read. The authority lives and dies with the gateway.
    pub fn certificate(&self) -> Option<&str> {
        self.room.authority.as_ref().map(Authority::certificate)
    }

    /// Begins to shut every entrance and end every connection, and does not wait for that.
    pub fn close(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Shuts every entrance, ends every connection, and says what has passed.
    ///
    /// Whoever comes second finds it shut.
    pub fn shutdown(&self) -> EgressUsage {
        self.end();
        self.usage()
    }

    fn end(&self) {
        self.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It can only have panicked, and then everything of it is gone as well.
            drop(thread.join());
        }
    }
}

/// A core dump of this process would hold the secrets. A limit of one byte, unlike none, also
/// stops dumps that are piped to a program.
fn no_core_dumps() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(Resource::Core).maximum;
    let current = Some(maximum.map_or(1, |most| most.min(1)));
    Ok(setrlimit(Resource::Core, Rlimit { current, maximum })?)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
    }
}
