//! The caller's streams, terminal and signals, on a program in a room.

use std::io;

use bulkhead_engine::{
    Console, Control,
    room::Which,
    rooms::{Attached, Client, ClientError, Reply},
};
use bulkhead_spec::Ending;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::of_client;
use crate::{
    codes::Code,
    console::{self, Listener, RawMode, watch},
    failure::Failure,
    printer::Printer,
    wish::Caller,
};

/// How it went.
pub(super) enum Joined {
    /// The program ended.
    Ended(Result<Ending, String>),
    /// What was there has been read; it still runs.
    Running,
    /// The caller did not wait.
    Left(Signal),
}

/// Stays with the program that `attached` leads to.
pub(super) async fn join(
    client: &Client,
    attached: Attached,
    caller: Caller,
    printer: &Printer,
) -> Result<Joined, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::System, "could not use the terminal or the streams").because(error)
    };
    let listener = Listener::start().map_err(failed)?;
    let (console, control, _streams) = console::open(caller, &listener).map_err(failed)?;
    let raw = caller.terminal.map(|_| RawMode::enter()).transpose().map_err(failed)?;
    let joined = tokio::select! {
        joined = converse(client, attached, console, printer) => joined,
        signal = watch(listener, control) => Ok(Joined::Left(signal)),
    };
    drop(raw);
    joined
}

async fn converse(
    client: &Client,
    attached: Attached,
    console: Console,
    printer: &Printer,
) -> Result<Joined, Failure> {
    let Attached { mut ear, mut hand, .. } = attached;
    let program = ear.program;
    let Console { stdin, mut stdout, mut stderr, mut control, .. } = console;
    let feed = async {
        let Some(mut stdin) = stdin else { return std::future::pending::<()>().await };
        let mut chunk = vec![0; 16 << 10];
        while let Ok(count @ 1..) = stdin.read(&mut chunk).await {
            if hand.write(chunk.get(..count).unwrap_or_default()).await.is_err() {
                break;
            }
        }
        hand.close_input().await.unwrap_or_default();
        std::future::pending::<()>().await;
    };
    let obey = async {
        // On connections of their own, so that input which nobody reads does not hold them up.
        while let Some(order) = control.recv().await {
            let done = match order {
                Control::Signal(signal) => client.signal(program, signal).await,
                Control::Resize(terminal) => client.resize(program, terminal).await,
                Control::Kill => client.signal(program, Signal::KILL).await,
            };
            // The program may just have ended; its end is on the way.
            done.unwrap_or_default();
        }
        std::future::pending::<()>().await;
    };
    let hear = async {
        loop {
            let reply = ear.next().await?;
            let (to, bytes) = match reply {
                Reply::Said(Which::Stdout, bytes) => (&mut stdout, bytes),
                Reply::Said(Which::Stderr, bytes) => (&mut stderr, bytes),
                Reply::Lost(bytes) => {
                    printer.note(&format!("{bytes} bytes of output are no longer there"));
                    continue;
                }
                Reply::Ended(ending, _) => return Ok::<_, ClientError>(Joined::Ended(ending)),
                Reply::Running => return Ok(Joined::Running),
            };
            if let Some(to) = to {
                let written = async {
                    to.write_all(&bytes).await?;
                    to.flush().await
                };
                // A reader that went away misses the rest, as with any program.
                written.await.unwrap_or_default();
            }
        }
    };
    tokio::select! {
        joined = hear => joined.map_err(|error| of_client(&error)),
        () = feed => Ok(Joined::Running),
        () = obey => Ok(Joined::Running),
    }
}
