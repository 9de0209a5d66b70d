//! `bulkhead exec`: another program in a room.

use std::path::Path;

use bulkhead_spec::{Exec, GuestPath, Stdin, escape_bytes};

use super::{
    house::House,
    join::{Joined, join},
    of_client,
};
use crate::{
    args::rooms::ExecArgs,
    codes::Code,
    commands::endings,
    config::Environment,
    console, engine,
    failure::Failure,
    printer::Printer,
    wish::{Caller, variables},
};

/// Runs the program in the room and returns its exit code.
pub(crate) fn run(
    args: &ExecArgs,
    environment: &Environment,
    printer: &Printer,
) -> Result<u8, Failure> {
    let house = House::open(environment, printer)?;
    let (_, client) = house.living(&args.room)?;
    let caller = if args.detach { Caller::default() } else { console::look(&args.console)? };
    let exec = understood(args, caller, environment)?;
    let runtime = engine::runtime()?;
    let ended = runtime.block_on(async {
        if args.detach {
            let program = client
                .spawn(exec, args.tag.clone())
                .await
                .map_err(|error| of_client(&error))?;
            printer.payload(&format!("{program}\n"))?;
            return Ok(0);
        }
        let attached =
            client.exec(exec, args.tag.clone()).await.map_err(|error| of_client(&error))?;
        let joined = join(&client, attached, caller, printer).await?;
        tell(joined, printer)
    });
    runtime.shutdown_background();
    ended
}

fn understood(
    args: &ExecArgs,
    caller: Caller,
    environment: &Environment,
) -> Result<Exec, Failure> {
    Ok(Exec {
        argv: args.program.clone(),
        dir: args.workdir.as_deref().map(guest_path).transpose()?,
        env: variables(&args.env, environment)?,
        timeout: args.timeout,
        stdin: if args.detach { Stdin::Empty } else { caller.stdin },
        terminal: caller.terminal,
        ..Exec::default()
    })
}

fn guest_path(dir: &Path) -> Result<GuestPath, Failure> {
    GuestPath::try_from(dir.to_owned()).map_err(|error| {
        let what =
            format!("cannot start in `{}`", escape_bytes(dir.as_os_str().as_encoded_bytes()));
        Failure::new(Code::WorkDir, what).because(error)
    })
}

/// Says how it went, as an exit code and in a sentence where one is due.
pub(super) fn tell(joined: Joined, printer: &Printer) -> Result<u8, Failure> {
    match joined {
        Joined::Ended(Ok(ending)) => {
            endings::tell_ending(&ending, printer);
            Ok(ending.exit_code())
        }
        Joined::Ended(Err(trouble)) => {
            let what = "how the program ended is not known";
            Err(Failure::new(Code::Room, what).because(bulkhead_spec::escape(&trouble)))
        }
        Joined::Running => Ok(0),
        Joined::Left(signal) => Ok(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)),
    }
}
