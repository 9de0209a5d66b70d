//! The server's end of a supervisor.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bulkhead_engine::{
    room::{From, Which},
    rooms::{Attached, Client, ClientError, Ear, Hand, Reply},
};
use bulkhead_spec::{Exec, Stdin};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::{
    Before, TAG,
    context::Refused,
    report::{self, Hello, LONGEST, Lines, Report, What},
    scripts,
};
use crate::{house::Tenant, locked::locked};

/// How long a supervisor may take to begin, to obey, or to read.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many bytes of reports may wait to be told; until they are, the supervisor is not heard.
const WAITING: usize = 2 * LONGEST;

/// So many lines may make no sense. One does where a server begins to listen in its middle.
const NONSENSE: usize = 1000;

/// A supervisor that runs in a room.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    program: u32,
    hand: tokio::sync::Mutex<Hand>,
    slots: Mutex<BTreeMap<u64, Queue>>,
    waiting: AtomicUsize,
    eased: Notify,
    next: AtomicU64,
    runs: AtomicU64,
    lives: AtomicBool,
}

/// The supervisor has ended, or does not answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the interpreter of this sandbox ended")]
pub(super) struct Ended;

/// Where the reports of a slot wait, each with its length.
type Queue = mpsc::UnboundedSender<(Report, usize)>;

/// One life of a context, seen from here.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) link: Arc<Link>,
    pub(super) number: u64,
    from: mpsc::UnboundedReceiver<(Report, usize)>,
}

impl Link {
    /// Starts a supervisor, or joins the one that a server before this one has left.
    pub(super) async fn open(
        tenant: &Tenant,
        before: Before,
    ) -> Result<(Arc<Self>, Hello), Refused> {
        let left = match before {
            Before::Nobody => None,
            Before::Another => left(&tenant.client).await,
        };
        let (attached, fresh) = match left {
            Some(attached) => (attached, false),
            None => (start(&tenant.client).await?, true),
        };
        let Attached { ear, hand, .. } = attached;
        let link = Arc::new(Self {
            client: tenant.client.clone(),
            program: ear.program,
            hand: tokio::sync::Mutex::new(hand),
            slots: Mutex::default(),
            waiting: AtomicUsize::new(0),
            eased: Notify::new(),
            next: AtomicU64::new(1),
            runs: AtomicU64::new(1),
            lives: AtomicBool::new(true),
        });
        let mut hello = link.adopt(0);
        tokio::spawn(Arc::clone(&link).hear(ear));
        // The end of what another server may have begun to say.
        link.write(if fresh { scripts::opening() } else { b"\n".to_vec() }).await?;
        link.order(&json!({ "op": "hello", "slot": 0 })).await?;
        while let Some(report) = hello.soon().await? {
            if let What::Hello(hello) = report.what {
                let last = hello.living.iter().map(|it| it.slot).max().unwrap_or_default();
                link.next.fetch_max(last.saturating_add(1), Ordering::Relaxed);
                return Ok((link, hello));
            }
        }
        Err(Ended.into())
    }

    /// Whether it is still there.
    pub(super) fn lives(&self) -> bool {
        self.lives.load(Ordering::Acquire)
    }

    /// A slot that nobody has had yet.
    pub(super) fn slot(self: &Arc<Self>) -> Slot {
        self.adopt(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The slot of that number.
    pub(super) fn adopt(self: &Arc<Self>, number: u64) -> Slot {
        let (to, from) = mpsc::unbounded_channel();
        locked(&self.slots).insert(number, to);
        Slot { link: Arc::clone(self), number, from }
    }

    /// A number for a piece.
    pub(super) fn run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells a slot to stop what it does.
    pub(super) async fn interrupt(&self, slot: u64) -> Result<(), Ended> {
        self.order(&json!({ "op": "interrupt", "slot": slot })).await
    }

    /// Ends a slot for good.
    pub(super) async fn close(&self, slot: u64) -> Result<(), Ended> {
        self.order(&json!({ "op": "close", "slot": slot })).await
    }

    /// Gives an order. A supervisor that does not read it in time is ended.
    pub(super) async fn order(&self, order: &Value) -> Result<(), Ended> {
        self.write(format!("{order}\n").into_bytes()).await
    }

    async fn write(&self, bytes: Vec<u8>) -> Result<(), Ended> {
        let write = async { self.hand.lock().await.write(&bytes).await };
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(Ok(())) if self.lives() => Ok(()),
            Ok(_) => Err(Ended),
            Err(_) => Err(self.end().await),
        }
    }

    /// Ends the supervisor, and so all contexts.
    async fn end(&self) -> Ended {
        self.lives.store(false, Ordering::Release);
        locked(&self.slots).clear();
        if let Err(error) = self.client.signal(self.program, Signal::KILL).await {
            tracing::debug!(%error, "a supervisor could not be ended");
        }
        Ended
    }

    /// Takes what the supervisor says, until it ends.
    async fn hear(self: Arc<Self>, mut ear: Ear) {
        let (mut lines, mut nonsense) = (Lines::default(), 0);
        loop {
            let sane = match ear.next().await {
                Ok(Reply::Said(Which::Stdout, bytes)) => {
                    self.pass(&mut lines, &bytes, &mut nonsense)
                }
                Ok(Reply::Said(Which::Stderr, bytes)) => {
                    let said = String::from_utf8_lossy(&bytes);
                    tracing::debug!(%said, "a supervisor complains");
                    true
                }
                Ok(Reply::Lost(_) | Reply::Running) => true,
                Ok(Reply::Ended(..)) | Err(_) => break,
            };
            if !sane || !self.eased().await {
                self.end().await;
                return;
            }
        }
        self.lives.store(false, Ordering::Release);
        locked(&self.slots).clear();
    }

    /// Hands each report to its slot; says whether all was as it should be.
    fn pass(&self, lines: &mut Lines, bytes: &[u8], nonsense: &mut usize) -> bool {
        let Ok(whole) = lines.take(bytes) else { return false };
        whole.into_iter().all(|line| {
            let Some(report) = report::read(&line) else {
                *nonsense += 1;
                return *nonsense <= NONSENSE;
            };
            let Some(queue) = locked(&self.slots).get(&report.slot).cloned() else {
                return true;
            };
            self.waiting.fetch_add(line.len(), Ordering::AcqRel);
            if queue.send((report, line.len())).is_err() {
                // Nobody listens to that slot any more.
                self.told(line.len());
            }
            true
        })
    }

    /// So many bytes wait no longer.
    fn told(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.eased.notify_one();
    }

    /// Waits until not too much waits; false if nobody takes it. Credit keeps an honest supervisor
    /// far below, unless clients are slow to take large results.
    async fn eased(&self) -> bool {
        while WAITING < self.waiting.load(Ordering::Acquire) {
            if tokio::time::timeout(PATIENCE, self.eased.notified()).await.is_err() {
                return false;
            }
        }
        true
    }
}

impl Slot {
    /// What it says next; `None` if it will say nothing more.
    pub(super) async fn next(&mut self) -> Option<Report> {
        let (report, length) = self.from.recv().await?;
        self.link.told(length);
        Some(report)
    }

    /// The same, if it comes soon; a supervisor that is silent then is ended.
    pub(super) async fn soon(&mut self) -> Result<Option<Report>, Ended> {
        match tokio::time::timeout(PATIENCE, self.next()).await {
            Ok(report) => Ok(report),
            Err(_) => Err(self.link.end().await),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.link.slots).remove(&self.number);
        self.from.close();
        while let Ok((_, length)) = self.from.try_recv() {
            self.link.told(length);
        }
    }
}

/// Starts the program.
async fn start(client: &Client) -> Result<Attached, Refused> {
    let exec = Exec {
        argv: scripts::argv(),
        dir: "/".parse().ok(),
        stdin: Stdin::Piped,
        ..Exec::default()
    };
    client.exec(exec, Some(TAG.to_owned())).await.map_err(|error| match &error {
        ClientError::Failed(failed) if failed.kind == "not_found" => {
            let text = "the code interpreter needs python3, which is not in this sandbox";
            Refused::new(501, text)
        }
        ClientError::Failed(_) | ClientError::Gone(_) | ClientError::Confused(_) => {
            Refused::new(500, error.to_string())
        }
    })
}

/// The supervisor that runs already, if there is one.
async fn left(client: &Client) -> Option<Attached> {
    let programs = client.programs().await.ok()?;
    let found = programs.iter().find(|it| it.running && it.tag.as_deref() == Some(TAG))?;
    client.attach(found.id, From::Now).await.ok()
}
