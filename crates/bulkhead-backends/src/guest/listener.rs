//! Who comes to where the guest listens.

use std::{io, net::SocketAddr, sync::Arc};

use bulkhead_guest::{
    protocol::{Datagram, Listen, ToGuest},
    wire::encode,
};
use tokio::sync::{mpsc, oneshot};

use super::{
    channel::Channel,
    link::Link,
    state::{Heard, State},
};
use crate::BackendError;

/// Datagrams that wait to be taken; more are lost.
const MOST_DATAGRAMS: usize = 64;

/// Where the guest is to listen.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    /// Where connections are taken.
    pub tcp: Vec<SocketAddr>,
    /// Where datagrams are taken.
    pub udp: Vec<SocketAddr>,
    /// The most connections at once; more wait inside.
    pub most: u32,
}

/// What comes to the doors, for two tasks. They close with the sandbox, or when both parts are
/// dropped: who comes then is refused.
pub struct Listener {
    /// Connections.
    pub connections: Connections,
    /// Datagrams.
    pub datagrams: Datagrams,
}

/// Connections from inside, as they come.
pub struct Connections {
    come: mpsc::UnboundedReceiver<Connection>,
    _open: Arc<Open>,
}

/// Datagrams from inside, as they come, and the way back.
pub struct Datagrams {
    come: mpsc::Receiver<Datagram>,
    open: Arc<Open>,
}

/// The doors of one listener, as long as somebody wants to hear.
struct Open {
    id: u32,
    state: Arc<State>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.state.say(&ToGuest::Leave { id: self.id });
    }
}

/// A connection from inside.
pub struct Connection {
    /// Its bytes.
    pub channel: Channel,
    /// The address that was wanted.
    pub local: SocketAddr,
    /// Who wanted it.
    pub peer: SocketAddr,
}

impl Link {
    /// Has the guest listen inside. May be called before [`Link::raise`], while the guest still has
    /// what ports below 1024 may need.
    pub async fn listen(&self, doors: Doors) -> Result<Listener, BackendError> {
        let failed = |source| BackendError::System { action: "listen in the sandbox", source };
        let (asked, answer) = oneshot::channel();
        let (connections, coming) = mpsc::unbounded_channel();
        let (datagrams, come) = mpsc::channel(MOST_DATAGRAMS);
        let id = {
            let mut known = self.state.known();
            let id = known.number().map_err(failed)?;
            let Doors { tcp, udp, most } = doors;
            let frame =
                encode(&ToGuest::Listen(Listen { id, tcp, udp, most })).map_err(failed)?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            if !known.is_over() {
                let heard = Heard { listening: Some(asked), connections, datagrams, most };
                known.listening.insert(id, heard);
                known.outbox.push(frame, Vec::new());
            }
            id
        };
        match answer.await {
            Ok(Ok(())) => {
                let open = Arc::new(Open { id, state: Arc::clone(&self.state) });
                let connections = Connections { come: coming, _open: Arc::clone(&open) };
                Ok(Listener { connections, datagrams: Datagrams { come, open } })
            }
            Ok(Err(errno)) => Err(failed(io::Error::from_raw_os_error(errno))),
            Err(_) => Err(self.gone("a listener")),
        }
    }
}

impl Connections {
    /// The next one; `None` when the sandbox is gone.
    pub async fn accept(&mut self) -> Option<Connection> {
        self.come.recv().await
    }
}

impl Datagrams {
    /// The next one; `None` when the sandbox is gone.
    pub async fn receive(&mut self) -> Option<Datagram> {
        self.come.recv().await
    }

    /// Answers a datagram: `bytes` go from the address it was sent to back to who sent it.
    pub fn answer(&self, to: &Datagram, bytes: Vec<u8>) {
        let Datagram { listener, local, peer, .. } = *to;
        let answer = Datagram { listener, local, peer, bytes };
        self.open.state.say(&ToGuest::Datagram(answer));
    }
}
