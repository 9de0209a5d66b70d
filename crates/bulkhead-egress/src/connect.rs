//! `CONNECT host:port`: a tunnel, asked for by name.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use crate::{
    destination::Destination, dial, gate, refusal::Answer, room::Room, tunnel, wire::Wire,
};

/// Opens the tunnel that `authority` asks for, or says why not.
pub(crate) async fn serve(room: &Arc<Room>, mut wire: Wire, authority: &str) {
    match open(room, authority).await {
        Ok((permit, outside)) => {
            if wire.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
                // A tunnel may turn out to carry HTTP, and so lead back to where this one began.
                Box::pin(tunnel::serve(room, permit, wire, outside)).await;
            }
        }
        Err(answer) => {
            drop(wire.write_all(answer.to_http().as_bytes()).await);
            drop(wire.shutdown().await);
        }
    }
}

/// A permit, and the connection if it is certain that one is needed.
///
/// The host is dialled before the program is told that the tunnel stands: it can then say what
/// went wrong.
async fn open(room: &Room, authority: &str) -> Result<(gate::Permit, Option<Wire>), Answer> {
    let Some(destination) = Destination::from_authority(authority, None) else {
        let denied = gate::unreadable(room, authority, 0);
        return Err(Answer::denied(&denied));
    };
    let permit = gate::judge(room, destination).map_err(|it| Answer::denied(&it))?;
    if !tunnel::is_blind(room, &permit) {
        return Ok((permit, None));
    }
    match dial::dial(room, &permit).await {
        Ok(outside) => Ok((permit, Some(outside))),
        Err(failed) => {
            let to = permit.destination();
            Err(Answer::failed(&to.host.to_string(), to.port, &failed))
        }
    }
}
