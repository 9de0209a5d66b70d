//! Rooms that keep volumes: each sees one, and nothing else.

use std::time::Duration;

use bulkhead_engine::rooms::{Client, LaunchError, Life, Lifetime, Listed, Then};
use bulkhead_spec::{Span, Spec};

use super::House;
use crate::{e2b::volumes::PLACE, random, volumes::Volume};

/// The label of a room that keeps a volume.
const VOLUME: &str = "bulkhead.volume";

impl House {
    /// A small room that sees a volume and nothing else.
    pub(crate) async fn keeper(&self, volume: &Volume) -> Result<Client, LaunchError> {
        let start = async || {
            self.forget_keepers();
            let id = format!("k{}", random::word(20).map_err(LaunchError::System)?);
            let mount = self.volumes.mount(volume, PLACE).map_err(LaunchError::System)?;
            let spec = Spec { mounts: vec![mount], ..Spec::default() };
            let mut record = self.base.record(&id, spec);
            let idle = Some(Span(Duration::from_mins(1)));
            record.lifetime = Lifetime { ttl: None, idle, then: Then::Kill };
            record.labels.insert(VOLUME.to_owned(), volume.id.clone());
            self.launch(&record).await?;
            Ok(Client::new(self.journal.socket(&id)))
        };
        self.volumes.keeper(volume, start).await
    }

    /// Forgets the keepers that have ended: nobody asks how.
    pub(super) fn forget_keepers(&self) {
        let ended =
            |it: &Listed| it.life != Life::Alive && it.record.labels.contains_key(VOLUME);
        for listed in self.journal.list().unwrap_or_default().iter().filter(|it| ended(it)) {
            if let Err(error) = self.journal.forget(&listed.record.id) {
                tracing::warn!(%error, "the record of a keeper stays");
            }
        }
    }
}
