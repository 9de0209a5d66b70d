//! `CONNECT host:port`: a tunnel, asked for by name.

use std::sync::Arc;

use http::StatusCode;
use tokio::io::AsyncWriteExt;

use crate::{
    destination::Destination, dial, gate, http::head::Head, refusal::Answer, room::Room,
    tunnel, wire::Wire,
};

/// Opens the tunnel that is asked for, or says why not.
pub(crate) async fn serve(room: &Arc<Room>, mut wire: Wire, head: &Head) {
    match open(room, head).await {
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
async fn open(room: &Room, head: &Head) -> Result<(gate::Permit, Option<Wire>), Answer> {
    let authority = head.target.as_str();
    let Some(destination) = Destination::from_authority(authority, None) else {
        let denied = gate::unreadable(room, authority, 0);
        return Err(Answer::denied(&denied));
    };
    let named = |host: &String| Destination::from_authority(host, Some(destination.port));
    // Some clients leave the port out, and some the header.
    if head.host.as_ref().is_some_and(|host| named(host).as_ref() != Some(&destination)) {
        let why = "the Host header names another host than the tunnel";
        return Err(Answer::plain(StatusCode::MISDIRECTED_REQUEST, why));
    }
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
