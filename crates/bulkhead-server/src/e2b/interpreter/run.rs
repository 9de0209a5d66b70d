//! One piece of code, from its start to its end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, Interval},
};

use super::{
    context::{Context, Life, Refused},
    lines,
    link::{Ended, Link, Slot},
    report::{Fault, Report, What},
};
use crate::house::Tenant;

/// The most text that one piece may write.
const TEXT: usize = 64 << 20;
/// The most that one piece may show.
const SHOWN: u64 = 64 << 20;
/// The most things that one piece may show.
const THINGS: u32 = 1000;
/// A client hears something at least so often.
const PULSE: Duration = Duration::from_secs(5);
/// How long a piece may take to stop when it is interrupted.
const GRACE: Duration = Duration::from_secs(3);
/// Credit is given back in parts of this size.
const PART: u64 = 256 << 10;

const LOST: &str = "the context did not stop when it was interrupted, so it was started again: \
                    its variables are gone\n";

/// A piece of code that is wanted.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) code: String,
    pub(super) env: BTreeMap<String, String>,
}

/// The client has gone.
struct Gone;

/// Where a client hears of its piece.
pub(super) struct Audience {
    to: mpsc::Sender<Bytes>,
    pulse: Interval,
}

impl Audience {
    pub(super) fn new(to: mpsc::Sender<Bytes>) -> Self {
        let pulse = tokio::time::interval_at(Instant::now() + PULSE, PULSE);
        Self { to, pulse }
    }

    async fn tell(&self, line: Bytes) -> Result<(), Gone> {
        self.to.send(line).await.map_err(|_| Gone)
    }

    /// What comes of `work`, as long as the client listens; it is told now and then that we live.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                _ = self.pulse.tick() => self.to.send(lines::keepalive()).await.map_err(|_| Gone)?,
                () = self.to.closed() => return Err(Gone),
            }
        }
    }
}

/// How it went on with a piece.
enum How {
    /// It came to its end.
    Over,
    /// The process of its context came to its end, so.
    Died(String),
    /// Nobody listens any more.
    Left,
}

/// Runs a piece in its turn and tells the client all of it.
pub(super) async fn run(
    tenant: Arc<Tenant>,
    context: Arc<Context>,
    piece: Piece,
    mut audience: Audience,
) {
    let Ok(mut life) = audience.during(context.life.lock()).await else { return };
    let fault = match in_turn(&tenant, &context, &mut life, (&piece, &mut audience)).await {
        Ok(How::Left) => return,
        Ok(How::Over) => None,
        Ok(How::Died(how)) => Some(format!(
            "the {} process of the context ended ({how}): its variables are gone, \
             the next execution starts another",
            context.language
        )),
        Err(refused) => Some(refused.text),
    };
    if fault.is_some() {
        life.over();
    }
    drop(life);
    let fault = fault.map(|value| Fault {
        name: "ContextError".to_owned(),
        traceback: format!("ContextError: {value}"),
        value,
    });
    for line in fault.iter().map(lines::fault).chain([lines::end()]) {
        if audience.tell(line).await.is_err() {
            return;
        }
    }
}

async fn in_turn(
    tenant: &Tenant,
    context: &Context,
    life: &mut Life,
    (piece, audience): (&Piece, &mut Audience),
) -> Result<How, Refused> {
    if context.is_removed() {
        return Err(Refused::new(404, format!("Context {} not found", context.id)));
    }
    let note = life.note.take();
    let link = tenant.interpreter.link(tenant).await?;
    let slot = context.slot(life, &link).await?;
    let run = started(&link, slot, piece).await?;
    let how = follow(slot, run, (audience, note)).await;
    if matches!(how, How::Left) && !stopped(slot, run).await {
        link.close(slot.number).await?;
        life.over();
        life.note = Some(LOST);
    }
    Ok(how)
}

/// Starts a piece; its number.
async fn started(link: &Link, slot: &Slot, piece: &Piece) -> Result<u64, Ended> {
    let run = link.run();
    let order = json!({
        "op": "run",
        "slot": slot.number,
        "run": run,
        "code": piece.code,
        "env": piece.env,
        "room": TEXT,
    });
    link.order(&order).await?;
    Ok(run)
}

/// Tells the client what the piece does.
async fn follow(
    slot: &mut Slot,
    run: u64,
    (audience, note): (&mut Audience, Option<&'static str>),
) -> How {
    if let Some(note) = note
        && audience.tell(lines::text("stderr", note)).await.is_err()
    {
        return How::Left;
    }
    let mut tally = Tally::default();
    loop {
        let Ok(report) = audience.during(slot.next()).await else { return How::Left };
        let Some(report) = report else { return How::Died("with its supervisor".to_owned()) };
        if report.run.is_some_and(|it| it != run) {
            continue;
        }
        let line = match tally.weigh(report) {
            Weighed::Line(line) => line,
            Weighed::Nothing => continue,
            Weighed::Done => {
                tally.settle(slot, 1).await;
                return How::Over;
            }
            Weighed::Died(how) => return How::Died(how),
        };
        if audience.tell(line).await.is_err() {
            return How::Left;
        }
        tally.settle(slot, PART).await;
    }
}

/// Interrupts a piece that nobody waits for; says whether it has stopped.
async fn stopped(slot: &mut Slot, run: u64) -> bool {
    if slot.link.interrupt(slot.number).await.is_err() {
        return false;
    }
    let stop = async {
        let mut tally = Tally::default();
        while let Some(report) = slot.next().await {
            let ours = report.run.is_none_or(|it| it == run);
            let over = matches!(report.what, What::Done | What::Died(_)) && ours;
            tally.cost += report.cost;
            tally.settle(slot, if over { 1 } else { PART }).await;
            if over {
                return matches!(report.what, What::Done);
            }
        }
        false
    };
    tokio::time::timeout(GRACE, stop).await.unwrap_or(false)
}

/// What a piece has had until now.
#[derive(Default)]
struct Tally {
    /// Credit that is to be given back.
    cost: u64,
    shown: u64,
    things: u32,
}

/// What becomes of a report.
enum Weighed {
    Line(Bytes),
    Nothing,
    Done,
    Died(String),
}

impl Tally {
    fn weigh(&mut self, report: Report) -> Weighed {
        self.cost = self.cost.saturating_add(report.cost);
        let line = match report.what {
            What::Out(text) => lines::text("stdout", &text),
            What::Err(text) => lines::text("stderr", &text),
            What::Dropped => {
                let text = format!(
                    "the output is longer than {} MiB: the rest is dropped\n",
                    TEXT >> 20
                );
                lines::text("stderr", &text)
            }
            What::Count(count) => lines::count(count),
            What::Shown(forms, standing) => {
                let line = lines::shown(forms, standing);
                let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
                self.things = self.things.saturating_add(1);
                self.shown = self.shown.saturating_add(length);
                if THINGS < self.things || SHOWN < self.shown {
                    return Weighed::Nothing;
                }
                line
            }
            What::Fault(fault) => lines::fault(&fault),
            What::Done => return Weighed::Done,
            What::Died(how) => return Weighed::Died(how),
            What::Opened | What::Failed(_) | What::Hello(_) => return Weighed::Nothing,
        };
        Weighed::Line(line)
    }

    /// Gives credit back, if there is enough of it.
    async fn settle(&mut self, slot: &Slot, least: u64) {
        if self.cost < least {
            return;
        }
        let order = json!({ "op": "credit", "slot": slot.number, "bytes": self.cost });
        self.cost = 0;
        if slot.link.order(&order).await.is_err() {
            tracing::debug!("a supervisor ended before it got its credit back");
        }
    }
}
