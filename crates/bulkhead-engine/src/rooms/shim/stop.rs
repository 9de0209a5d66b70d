//! The end of a room whose programs may tidy up first.
//!
//! Meanwhile nobody gets in but those who want it to end sooner.

use std::{sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::{task::JoinSet, time::Instant};

use super::{super::line::Listener, Held, reached};

impl Held {
    /// Asks every program to stop, and waits until all have, for `grace` or what somebody else says
    /// who has less patience.
    pub(super) async fn ask_to_stop(
        self: &Arc<Self>,
        grace: Duration,
        (listener, clients): (&Listener, &mut JoinSet<()>),
    ) {
        let running = self.room.programs();
        let running: Vec<_> = running.iter().filter(|it| it.finished().is_none()).collect();
        if grace.is_zero() || running.is_empty() {
            return;
        }
        for program in &running {
            program.signal(Signal::TERM);
        }
        let all = async {
            for program in &running {
                program.wait().await;
            }
        };
        tokio::select! {
            () = all => {}
            () = self.lose_patience(grace) => {}
            () = self.welcome_all(listener, clients) => {}
        }
    }

    /// Whether somebody said that the room is to end.
    pub(super) fn is_ending(&self) -> bool {
        self.over.borrow().is_some()
    }

    /// Returns after `grace`, or sooner if somebody wants that.
    async fn lose_patience(&self, grace: Duration) {
        let mut over = self.over.subscribe();
        let mut until = Instant::now().checked_add(grace);
        loop {
            let told = over.borrow_and_update().as_ref().map(|it| it.grace);
            let sooner = told.and_then(|it| Instant::now().checked_add(it));
            until = until.into_iter().chain(sooner).min();
            tokio::select! {
                () = reached(until) => return,
                Ok(()) = over.changed() => {}
            }
        }
    }

    /// Serves whoever comes.
    async fn welcome_all(self: &Arc<Self>, listener: &Listener, clients: &mut JoinSet<()>) {
        loop {
            tokio::select! {
                accepted = listener.accept() => self.welcome(accepted, clients).await,
                Some(_) = clients.join_next() => {}
            }
        }
    }
}
