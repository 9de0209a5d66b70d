//! Connections to something inside.

use std::io;

use bulkhead_guest::protocol::{To, ToGuest};
use tokio::sync::oneshot;

use super::{channel::Channel, link::Link, pipe::Ways};
use crate::BackendError;

impl Link {
    /// Connects to a port of the sandbox's loopback interface, or to a socket in its file system.
    pub async fn connect(&self, to: To) -> Result<Channel, BackendError> {
        let failed = |source| BackendError::System { action: "connect to the sandbox", source };
        let (asked, answer) = oneshot::channel();
        {
            let mut known = self.state.known();
            let (channel, _) = known.channel(Ways::Both).map_err(failed)?;
            if !known.is_over() {
                known.dialled.insert(channel, asked);
                let frame = bulkhead_guest::wire::encode(&ToGuest::Connect { channel, to });
                known.outbox.push(frame.map_err(failed)?, Vec::new());
            }
        }
        match answer.await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(errno)) => Err(failed(io::Error::from_raw_os_error(errno))),
            Err(_) => Err(self.gone("a connection")),
        }
    }
}
