//! What is said on a permitted connection, before it is passed on.

use std::{io, sync::Arc};

use bulkhead_policy::Speech;
use bulkhead_spec::Host;
use tokio::time::timeout;

use crate::{
    destination::Destination,
    dial, gate,
    gate::Permit,
    hello::{self, First, Hello},
    http::{self, Face},
    relay::relay,
    room::Room,
    terminate,
    wire::Wire,
};

/// Whether the bytes of this connection are passed on without being read.
pub(crate) fn is_blind(room: &Room, permit: &Permit) -> bool {
    let blind = permit.lets_speak(Speech::Tls) || permit.lets_speak(Speech::Raw);
    blind && !must_read(room, permit)
}

/// Whether somebody must read what is said: to judge requests, to put in a secret, to count.
fn must_read(room: &Room, permit: &Permit) -> bool {
    let host = &permit.destination().host;
    permit.needs_reading() || room.vault().is_for(host) || room.meter.counts_tokens_of(host)
}

/// Passes on what is said, if it is what may be said here; `outside` is there if it was dialled.
pub(crate) async fn serve(
    room: &Arc<Room>,
    permit: Permit,
    mut inside: Wire,
    outside: Option<Wire>,
) {
    let raw = permit.allowance().speech.contains(&Speech::Raw);
    let counted = room.meter.counts_tokens_of(&permit.destination().host);
    if raw && !permit.needs_reading() && !counted {
        // Whoever speaks first, it may be anything; also at a host that has a secret, whose ssh
        // has nothing to do with it.
        return pass_on(room, &permit, inside, outside).await;
    }
    let first = timeout(room.timings.handshake, hello::listen(&mut inside)).await;
    let first = first.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match first {
        Ok(First::Hello(hello)) if permit.lets_speak(Speech::Tls) => {
            if let Err(why) = check_name(room, permit.destination(), &hello) {
                gate::withdraw(room, permit.destination(), why);
                return inside.reset();
            }
            if must_read(room, &permit) {
                terminate::serve(room, permit, inside).await;
            } else {
                tokio::select! {
                    () = pass_on(room, &permit, inside, outside) => {}
                    () = to_be_read(room, &permit) => {}
                }
            }
        }
        Ok(First::Other) if permit.lets_speak(Speech::Http) => {
            http::serve(room, inside, Face::Origin(Arc::new(permit))).await;
        }
        Ok(First::Hello(_) | First::Other) => {
            let why =
                "what was said there is not what its rule allows: write `tcp://` if it is";
            gate::withdraw(room, permit.destination(), why);
            inside.reset();
        }
        Err(_) => inside.reset(),
    }
}

/// Ends when what passes unread would have to be read by now: whoever connects again is.
async fn to_be_read(room: &Room, permit: &Permit) {
    let mut rules = room.watch_rules();
    while !must_read(room, permit) {
        if rules.changed().await.is_err() {
            // Nobody is left to change anything.
            std::future::pending::<()>().await;
        }
    }
}

async fn pass_on(room: &Room, permit: &Permit, inside: Wire, outside: Option<Wire>) {
    let outside = match outside {
        Some(outside) => Ok(outside),
        None => dial::dial(room, permit).await,
    };
    match outside {
        Ok(outside) => relay(room, permit, inside, outside).await,
        Err(failed) => {
            tracing::debug!(to = %permit.destination(), error = %failed, "not reached");
            inside.reset();
        }
    }
}

/// The name in the hello must be the one that was judged: one certificate serves many hosts, and
/// the server goes by this name.
fn check_name(room: &Room, to: &Destination, hello: &Hello) -> Result<(), &'static str> {
    match (&to.host, &hello.name) {
        (Host::Name(judged), Some(asked)) if judged == asked => Ok(()),
        (Host::Name(_), Some(_)) => Err("the TLS client asked for another name"),
        (Host::Name(_), None) => Err("the TLS client asked for no name"),
        (Host::Address(_), None) => Ok(()),
        (Host::Address(_), Some(asked)) => {
            let named = Destination { host: asked.clone().into(), port: to.port };
            gate::judge(room, named)
                .map(drop)
                .map_err(|_| "the TLS client asked for another name")
        }
    }
}
