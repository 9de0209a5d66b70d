//! `bulkhead port`: a port of a room, on this host's loopback.

use std::net::Ipv4Addr;

use bulkhead_engine::rooms::Client;
use tokio::{
    io::{AsyncReadExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};

use super::house::House;
use crate::{
    args::rooms::{PortArgs, PortPair},
    codes::Code,
    config::Environment,
    engine,
    failure::Failure,
    printer::Printer,
};

/// Publishes the port until somebody ends this, or the room ends.
pub(crate) fn run(
    args: &PortArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let (seen, client) = house.living(&args.room)?;
    let PortPair { inside, outside } = args.port;
    let runtime = engine::runtime()?;
    let ended = runtime.block_on(async {
        let failed = |error: std::io::Error| {
            let what = format!("cannot listen on 127.0.0.1:{outside}");
            Failure::new(Code::System, what).because(error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, outside)).await;
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        printer.payload(&format!("{address}\n"))?;
        tokio::select! {
            () = serve(listener, &client, inside, printer) => {}
            _ = interrupted.recv() => return Ok(0),
            _ = terminated.recv() => return Ok(0),
        }
        Err(Failure::new(Code::Room, format!("the room `{}` has ended", seen.name)))
    });
    runtime.shutdown_background();
    ended
}

/// Serves everybody who comes until the room does not answer any more.
async fn serve(listener: TcpListener, client: &Client, port: u16, printer: &Printer) {
    let served = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    drop(tokio::spawn(join(stream, client.clone(), port, printer.clone())));
                }
                // Out of descriptors; some will come back.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    };
    tokio::select! {
        () = gone(client) => {}
        () = served => {}
    }
}

/// Returns when the room is no more. Its shim hangs up on everybody then, also on one who asks for
/// nothing.
async fn gone(client: &Client) {
    while let Ok(line) = client.connect().await {
        let (mut from, _to) = line.halves();
        from.read(&mut [0]).await.unwrap_or_default();
        if client.inspect().await.is_err() {
            return;
        }
    }
}

/// Joins one connection to the port inside.
async fn join(mut outside: TcpStream, client: Client, port: u16, printer: Printer) {
    match client.forward(port).await {
        Ok(mut inside) => {
            let joined = copy_bidirectional(&mut outside, &mut inside).await;
            // One that breaks off is the business of the two who speak.
            joined.map(drop).unwrap_or_default();
        }
        Err(error) => {
            let failure = super::of_client(&error);
            let causes = failure.causes.join(": ");
            printer.note(&format!("nobody answers on port {port} of the room: {causes}"));
        }
    }
}
