//! What a room is, changed while it lives: by its user, or by becoming somebody's.

use std::{
    io,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use bulkhead_backends::crash;
use bulkhead_spec::{Change, Root};

use super::{
    super::{
        client::Update,
        journal::{JournalError, Pooled, Record, Why},
        pool::{self, HandOut, Shape},
    },
    Ending, Held, named,
};
use crate::RunError;

/// How long whoever was given a room has the host for its first program.
const COURTESY: Duration = Duration::from_millis(20);

/// Why a parked room was not given out.
pub(super) enum NotGiven {
    /// The name is not free, or there may be no more rooms.
    Journal(JournalError),
    /// It is not what is wanted, or somebody else has it.
    Run(RunError),
}

impl From<RunError> for NotGiven {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Held {
    /// Whether nobody has the room yet.
    pub(super) fn is_parked(&self) -> bool {
        match self.record().pool {
            Pooled::Parked { .. } => true,
            Pooled::No | Pooled::Taken { .. } => false,
        }
    }

    /// Changes what the room is; what was said to be done is written down.
    pub(super) async fn update(&self, update: Update) -> Result<(), RunError> {
        let Update { change, lifetime, labels } = update;
        let _alone = self.changing.lock().await;
        let before = self.record().clone();
        let mut after = before.clone();
        after.spec = after.spec.changed(&change);
        after.labels.extend(labels);
        after.lifetime = lifetime.unwrap_or(after.lifetime);
        let revised = self.room.redecide(named(&after), &after.policy)?;
        self.claim.rewrite(&after).map_err(|error| unwritten(&error))?;
        crash::point();
        if change != Change::default()
            && let Err(error) = self.room.revise(revised, &change).await
        {
            self.claim.rewrite(&before).map_err(|error| unwritten(&error))?;
            return Err(error);
        }
        *self.record() = after;
        if let Some(lifetime) = lifetime {
            self.prolong(lifetime);
        }
        Ok(())
    }

    /// Makes a parked room somebody's. Only one can have it: whoever comes second is refused.
    pub(super) async fn hand_out(&self, order: &HandOut) -> Result<(), NotGiven> {
        let _alone = self.changing.lock().await;
        if !self.is_parked() {
            return Err(refused("somebody has it already").into());
        }
        let parked = self.record().clone();
        // By the link: the program that was started, wherever it was moved since.
        let own = Shape::of(&parked, "/proc/self/exe".as_ref());
        if own.as_ref() != Some(&order.shape) {
            return Err(refused("it was made from something else").into());
        }
        self.check_image().await?;
        let record = order.onto(&parked);
        let revised = self.room.redecide(record.spec.clone(), &record.policy)?;
        crash::point();
        self.claim.hand_out(&self.journal, &record).map_err(NotGiven::Journal)?;
        let name = record.name.clone();
        *self.record() = record;
        if let Err(error) = self.room.hand_out(revised, &name) {
            // It is written down as somebody's and is of no use to them.
            let ending = Ending { why: Why::Stopped, grace: Duration::ZERO };
            self.over.send_replace(Some(ending));
            return Err(error.into());
        }
        self.prolong(order.lifetime);
        crash::point();
        Ok(())
    }

    /// Has another room made in the place of this one, which was `parked`, soon: whoever was given this
    /// one has something to do first, and starting somebody to make it takes as long as a program.
    pub(super) fn make_another(self: &Arc<Self>, parked: Record) {
        *self.successor() = Some(parked);
        let held = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(COURTESY).await;
            if let Some(held) = held.upgrade() {
                held.begin_another().await;
            }
        });
    }

    /// The same, now, unless it is done already.
    pub(super) async fn begin_another(&self) {
        let parked = self.successor().take();
        if let Some(parked) = parked {
            pool::refill(&self.journal, "/proc/self/exe".as_ref(), &parked).await;
        }
    }

    fn successor(&self) -> MutexGuard<'_, Option<Record>> {
        self.successor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An image may have got another content under the same name meanwhile.
    async fn check_image(&self) -> Result<(), RunError> {
        let plan = self.room.plan();
        let (Root::Image(image), Some(facts)) = (plan.root(), plan.image()) else {
            return Ok(());
        };
        let builder = self.engine.backends.iter().find(|it| it.name() == self.room.backend());
        let Some(builder) = builder else { return Ok(()) };
        if builder.furnish(image).await?.digest == facts.digest {
            return Ok(());
        }
        Err(refused("its image is another one by now"))
    }
}

fn refused(why: &str) -> RunError {
    RunError::Room { what: "take a parked room", why: why.to_owned() }
}

fn unwritten(error: &io::Error) -> RunError {
    RunError::Room { what: "write the change down", why: error.to_string() }
}
