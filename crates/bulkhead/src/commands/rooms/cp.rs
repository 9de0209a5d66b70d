//! `bulkhead cp`: files and trees, into a room and out of it.
//!
//! Everything inside is done by the room's guest with the rights of the room. What comes out is
//! checked and bounded, and lands nowhere but where the caller said.

mod into;
mod out;
mod place;
mod progress;

use bulkhead_engine::rooms::{
    Client, ClientError, Links,
    tree::{Facts, FileError, Kind},
};
use bulkhead_spec::{Bytes, escape_bytes};

use self::place::{Inside, Place};
use super::{house::House, of_client};
use crate::{
    args::rooms::CpArgs, codes::Code, config::Environment, engine, failure::Failure,
    printer::Printer,
};

/// Copies one way or the other.
pub(crate) fn run(
    args: &CpArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let (from, to) = (Place::of(&args.from), Place::of(&args.to));
    let room = match (&from, &to) {
        (Place::Room(inside), Place::Host(_) | Place::Stream)
        | (Place::Host(_) | Place::Stream, Place::Room(inside)) => inside.room.clone(),
        (Place::Room(_), Place::Room(_)) => {
            return Err(neither("both are in a room").hint("copy to the host in between"));
        }
        (Place::Host(_) | Place::Stream, Place::Host(_) | Place::Stream) => {
            return Err(neither("neither is in a room").hint("write ROOM:PATH for one of them"));
        }
    };
    let house = House::open(environment, printer)?;
    let (_, client) = house.living(&room)?;
    let runtime = engine::runtime()?;
    let copied = runtime.block_on(async {
        match (&from, &to) {
            (Place::Room(inside), Place::Stream) => {
                out::to_stdout(&client, inside, args).await.map(|()| 0)
            }
            (Place::Room(inside), Place::Host(path)) => {
                let copy = out::Copy { client: &client, inside, args, printer };
                copy.to_or_stopped(path).await
            }
            (Place::Stream, Place::Room(inside)) => {
                into::from_stdin(&client, inside).await.map(|()| 0)
            }
            (Place::Host(path), Place::Room(inside)) => {
                into::Copy { client: &client, inside, printer }.from(path).await.map(|()| 0)
            }
            (Place::Room(_), Place::Room(_))
            | (Place::Host(_) | Place::Stream, Place::Host(_) | Place::Stream) => Ok(0),
        }
    });
    runtime.shutdown_background();
    copied
}

fn neither(why: &str) -> Failure {
    Failure::new(Code::Argument, "cannot copy").because(why)
}

/// What is at a path of the room, behind links; `None` if nothing is.
async fn look(client: &Client, path: &[u8]) -> Result<Option<Facts>, Failure> {
    match client.stat(path, Links::Follow).await {
        Ok(facts) => Ok(Some(facts)),
        Err(ClientError::Failed(failed)) if failed.kind == "no_file" => Ok(None),
        Err(error) => Err(about(path, &error)),
    }
}

/// What the room did not do with a path.
fn about(path: &[u8], error: &ClientError) -> Failure {
    let failure = of_client(error);
    let ClientError::Failed(_) = error else { return failure };
    let what = format!("cannot use `{}` of the room", escape_bytes(path));
    let causes = std::iter::once(failure.what).chain(failure.causes);
    causes.fold(
        Failure { hints: failure.hints, ..Failure::new(failure.code, what) },
        Failure::because,
    )
}

/// Why something did not become a file or a tree on the host, or could not be read there.
fn on_host(what: String, error: &FileError) -> Failure {
    let failure = Failure::new(Code::Room, what).because(error);
    match error {
        FileError::TooMuch { .. } => {
            failure.hint("allow more: --max-size SIZE, --max-files COUNT")
        }
        FileError::System(_)
        | FileError::NotAFile(_)
        | FileError::TooManyWatches
        | FileError::Hostile(_)
        | FileError::Gone(_) => failure,
    }
}

/// Refuses what has no bytes that could be copied.
fn is_copied(inside: &Inside, facts: &Facts) -> Result<(), Failure> {
    match facts.kind {
        Kind::File | Kind::Dir => Ok(()),
        kind @ (Kind::Link | Kind::Fifo | Kind::Socket | Kind::Device) => {
            let what = format!("cannot copy `{}`", escape_bytes(&inside.path));
            Err(Failure::new(Code::Room, what).because(FileError::NotAFile(kind)))
        }
    }
}

/// Says what was left out.
fn tell_skipped(skipped: &[Vec<u8>], printer: &Printer) {
    const TOLD: usize = 10;
    for path in skipped.iter().take(TOLD) {
        let path = escape_bytes(path);
        printer.warning(&format!("`{path}` was skipped: it is no file, or cannot be read"));
    }
    if let Some(more @ 1..) = skipped.len().checked_sub(TOLD) {
        printer.warning(&format!("{more} more were skipped"));
    }
}

fn tell_copied(entries: u64, bytes: u64, printer: &Printer) {
    printer.detail(&format!("copied {entries} files and directories, {}", Bytes(bytes)));
}
