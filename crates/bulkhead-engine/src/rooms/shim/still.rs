//! A room that stands still while its disk is copied.

use std::path::Path;

use bulkhead_backends::{Copied, Copier, Freezer, Sandbox, crash};
use tokio::sync::RwLockReadGuard;

use super::{Held, freezer};
use crate::RunError;

impl Held {
    /// The right to start something; while it is held, no copy begins, and it comes only when none
    /// is being made.
    pub(in super::super) async fn moving(&self) -> RwLockReadGuard<'_, ()> {
        self.still.read().await
    }

    /// Copies the disk of the room into `layer` while every program stands still.
    ///
    /// # Cancellation
    /// The room may stay frozen, as if somebody had paused it.
    pub(in super::super) async fn copy(&self, layer: &Path) -> Result<Copied, RunError> {
        let still = self.still.write().await;
        let sandbox = self.room.sandbox().await?;
        let copier = copier(&*sandbox, self.room.backend())?;
        let paused = *self.paused.borrow();
        let freezer = if paused { Ok(None) } else { frozen(&*sandbox).await.map(Some) };
        let frozen = match freezer {
            Ok(freezer) => freezer,
            Err(error) if self.busy() => return Err(unsteady(&error)),
            // Nothing runs that could write.
            Err(_) => None,
        };
        crash::point();
        let done = copier.copy(layer).await;
        crash::point();
        if let Some(freezer) = frozen {
            freezer.thaw().await?;
        }
        drop(still);
        Ok(done?)
    }
}

/// Has every program of `sandbox` stand still, and says who lets them go on.
async fn frozen(sandbox: &dyn Sandbox) -> Result<&dyn Freezer, RunError> {
    let freezer = freezer(sandbox)?;
    freezer.freeze().await?;
    Ok(freezer)
}

/// What copies the disk of `sandbox`.
pub(in super::super) fn copier<'a>(
    sandbox: &'a dyn Sandbox,
    backend: &str,
) -> Result<&'a dyn Copier, RunError> {
    let why = format!("the {backend} backend cannot copy the disk of a room");
    sandbox.copier().ok_or(RunError::Room { what: "checkpoint", why })
}

fn unsteady(error: &RunError) -> RunError {
    let why = format!("programs run in the room, and it cannot stand still ({error})");
    RunError::Room { what: "checkpoint", why }
}
