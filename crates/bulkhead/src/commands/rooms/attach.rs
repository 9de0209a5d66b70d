//! `bulkhead attach`, `logs`: what a program of a room says.

use bulkhead_engine::{
    room::From,
    rooms::{Client, ProgramInfo},
};
use bulkhead_spec::{Stdin, escape};

use super::{exec::tell, house::House, join::join, of_client};
use crate::{
    args::{
        rooms::{AttachArgs, LogsArgs},
        run::ConsoleArgs,
    },
    codes::Code,
    config::Environment,
    console, engine,
    failure::Failure,
    printer::Printer,
    wish::Caller,
};

/// Joins a running program, with this terminal.
pub(crate) fn attach(
    args: &AttachArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let (_, client) = house.living(&args.room)?;
    let runtime = engine::runtime()?;
    let ended = runtime.block_on(async {
        let program = choose(&client, args.program.as_deref()).await?;
        let mut caller = console::look(&ConsoleArgs { interactive: true, tty: false })?;
        if !program.terminal {
            caller.terminal = None;
        }
        let attached = client.attach(program.id, From::Start).await;
        let attached = attached.map_err(|error| of_client(&error))?;
        if let Some(terminal) = caller.terminal {
            let told = client.resize(program.id, terminal).await;
            told.map_err(|error| of_client(&error))?;
        }
        tell(join(&client, attached, caller, printer).await?, printer)
    });
    runtime.shutdown_background();
    ended
}

/// Shows what a program said, and goes on if asked to.
pub(crate) fn logs(
    args: &LogsArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let (_, client) = house.living(&args.room)?;
    let runtime = engine::runtime()?;
    let ended = runtime.block_on(async {
        let program = choose(&client, args.program.as_deref()).await?;
        let attached = if args.follow {
            client.attach(program.id, From::Start).await
        } else {
            client.output(program.id).await
        };
        let attached = attached.map_err(|error| of_client(&error))?;
        let caller = Caller { stdin: Stdin::Empty, terminal: None };
        // Whatever became of the program, showing what it said has worked.
        join(&client, attached, caller, printer).await.map(|_| 0)
    });
    runtime.shutdown_background();
    ended
}

/// The program that is meant: by its number, by its tag, or the last one.
async fn choose(client: &Client, which: Option<&str>) -> Result<ProgramInfo, Failure> {
    let mut programs = client.programs().await.map_err(|error| of_client(&error))?;
    let found = match which {
        None => programs.pop(),
        Some(which) => programs
            .into_iter()
            .rev()
            .find(|it| it.id.to_string() == which || it.tag.as_deref() == Some(which)),
    };
    found.ok_or_else(|| {
        let what = match which {
            Some(which) => format!("the room has no program `{}`", escape(which)),
            None => "nothing has run in the room yet".to_owned(),
        };
        Failure::new(Code::Room, what).hint("`bulkhead inspect ROOM` lists its programs")
    })
}
