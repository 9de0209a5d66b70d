//! Connections of programs that know nothing of a proxy.
//!
//! Inside, every address is local, so a connection to anywhere arrives here, and the address that
//! was wanted is the one that it arrived at.

use std::{net::SocketAddr, sync::Arc};

use crate::{
    destination::Destination,
    dns, gate,
    http::{self, Face},
    room::Room,
    tunnel,
    wire::Wire,
};

/// Serves a connection to `wanted`.
pub(crate) async fn serve(room: &Arc<Room>, wire: Wire, wanted: SocketAddr) {
    if wanted.port() == 53 {
        return dns::serve_stream(room, wire).await;
    }
    let host = wanted.ip().into();
    let destination = room.named(Destination { host, port: wanted.port() });
    match gate::judge(room, destination) {
        Ok(permit) => tunnel::serve(room, permit, wire, None).await,
        // Whoever speaks HTTP can be told; to anybody else it is refused.
        Err(denied) if wanted.port() == 80 => {
            http::serve(room, wire, Face::Denied(denied)).await;
        }
        Err(_) => wire.reset(),
    }
}
