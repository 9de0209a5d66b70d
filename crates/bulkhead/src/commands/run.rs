//! `bulkhead run`: one program, in one sandbox, to its end.

use std::path::Path;

use bulkhead_backends::Remains;
use bulkhead_engine::{Engine, Placed};
use bulkhead_spec::{Outcome, escape_bytes};
use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::{
    agents::Agent,
    ahead::{self, Ahead},
    args::run::RunArgs,
    codes::Code,
    commands::{egress, endings, image, plan, rooms},
    config::{Choice, Environment},
    console::{self, Listener, RawMode, watch},
    engine,
    failure::Failure,
    parting::{self, Behind},
    printer::{Printer, Talk},
    report::{Report, Streams},
    wish::{Caller, Wish},
};

/// How a run came to its end.
enum Ended {
    /// The program ended, or was ended.
    Outcome(Box<Outcome>, Streams),
    /// The caller did not wait for the end.
    Left(Signal),
}

/// Runs the program and returns its exit code.
pub(crate) fn run(
    args: &RunArgs,
    environment: Environment,
    ahead: Option<Ahead>,
    printer: &mut Printer,
) -> Result<u8, Failure> {
    if args.dry.dry_run {
        return plan::show(&args.ask, args.dry.json.into(), environment, printer);
    }
    printer.talk = Talk::from(&args.ask.talk);
    if let (true, Some(name)) = (args.keep, &args.ask.name) {
        return rooms::keep::run(&args.ask, name, environment, printer);
    }
    let report = args.record.report.as_deref().map(Report::open).transpose()?;
    let ended = perform(args, environment, ahead, printer);
    match (&ended, report) {
        (Ok(Ended::Outcome(outcome, streams)), Some(report)) => {
            report.outcome(outcome, streams)?;
        }
        (Err(failure), Some(report)) => report.failure(failure, failure.exit.unwrap_or(125))?,
        (Ok(Ended::Left(_)), Some(_)) | (Ok(_) | Err(_), None) => {}
    }
    match ended? {
        Ended::Outcome(outcome, streams) => {
            endings::tell(&outcome, printer);
            passed_on(&streams)?;
            Ok(outcome.ending.exit_code())
        }
        Ended::Left(signal) => Ok(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)),
    }
}

/// Nobody runs without walls and is not told.
fn warn_of_no_walls(choice: Choice, args: &RunArgs, printer: &Printer) {
    if choice != Choice::None {
        return;
    }
    let program = args.ask.program.first();
    let program = program.map(|it| escape_bytes(it.as_encoded_bytes())).unwrap_or_default();
    printer.alarm(&format!("no walls: `{program}` runs with all of your rights"));
}

/// Whether the host bears one more sandbox.
fn check_bearable(wish: &Wish) -> Result<(), Failure> {
    wish.layer.house.reserve().check_memory().map_err(|busy| Failure::busy(&busy))
}

fn perform(
    args: &RunArgs,
    environment: Environment,
    ahead: Option<Ahead>,
    printer: &Printer,
) -> Result<Ended, Failure> {
    let caller = console::look(&args.ask.console)?;
    let wish = Wish::of(&args.ask, caller, environment)?;
    wish.warnings.iter().for_each(|it| printer.warning(it));
    wish.details.iter().for_each(|it| printer.detail(it));
    // Somebody at a terminal has a program on the screen that would not expect a line there.
    let watched = caller.terminal.is_some();
    let live = (!watched).then(|| printer.clone());
    let copy =
        args.record.events.as_ref().map(|it| engine::copy_to(Path::new(it))).transpose()?;
    let observed = wish.layer.observed();
    let absent = wish.agent.as_ref().and_then(Agent::absent);
    let runtime = engine::runtime()?;
    let ended = runtime.block_on(async {
        let (fresh, native) = ahead.map(|it| (it.id, it.native)).unzip();
        let mut offer = engine::offer_with(native, &(&wish).into()).await?;
        let found = match offer.daemon(&(&wish).into()) {
            Some(product) => image::first_use(&wish, product, printer).await?,
            None => None,
        };
        let wish = match found {
            Some(_) => Wish::within(&args.ask, caller, wish.environment, found)?,
            None => wish,
        };
        let backends = std::mem::take(&mut offer.backends);
        let engine = engine::recording(
            wish.policy.clone(),
            backends,
            &wish.paths,
            &wish.environment,
            engine::Listeners { copy, printer: live },
        )?;
        check_bearable(&wish)?;
        let id = args.ask.name.clone().or(fresh).map_or_else(fresh_id, Ok)?;
        let placed = engine
            .prepare(&id, wish.spec, wish.exec)
            .await
            .map_err(|error| offer.unplaced(&error))?;
        warn_of_no_walls(wish.choice, args, printer);
        tell_place(&placed, offer.because.as_deref(), printer);
        accompany(&engine, &placed, wish.paths.runtime.as_deref(), printer).await
    });
    if let (true, Ok(Ended::Outcome(outcome, _))) = (watched, &ended) {
        egress::summary(outcome, printer);
    }
    if let (Some(observed), Ok(Ended::Outcome(outcome, _))) = (&observed, &ended) {
        egress::drift(observed, outcome, printer);
    }
    // A stream that nobody reads must not keep us, nor what the end of this process tidies up.
    std::mem::forget(runtime);
    ended.map_err(|failure| match (failure.code, absent) {
        (Code::NotFound, Some(absent)) => failure.hint(absent),
        (_, _) => failure,
    })
}

/// Runs the program, and tidies up while it runs and when it has ended.
async fn accompany(
    engine: &Engine,
    placed: &Placed<'_>,
    runtime: Option<&Path>,
    printer: &Printer,
) -> Result<Ended, Failure> {
    // What a killed run left is removed while this program starts and runs, not before.
    let (asked, was_asked) = oneshot::channel();
    let swept = async {
        // One that never is has told so by letting go.
        was_asked.await.unwrap_or_default();
        let swept = engine.sweep().await;
        (swept, runtime.and_then(Behind::allowed))
    };
    let (ended, (swept, behind)) = tokio::join!(attend(engine, placed, asked), swept);
    if let Err(error) = swept {
        printer.warning(&Failure::of_run(&error).what);
    }
    let (ended, remains) = ended?;
    parting::leave(remains, behind);
    Ok(ended)
}

/// Runs the program with the caller's streams, terminal and signals.
async fn attend(
    engine: &Engine,
    placed: &Placed<'_>,
    asked: oneshot::Sender<()>,
) -> Result<(Ended, Remains), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::System, "could not use the terminal or the streams").because(error)
    };
    let caller = Caller { stdin: placed.exec.stdin(), terminal: placed.exec.terminal() };
    let listener = Listener::start().map_err(failed)?;
    let (mut console, control, streams) = console::open(caller, &listener).map_err(failed)?;
    console.asked = Some(asked);
    let raw = placed.exec.terminal().map(|_| RawMode::enter()).transpose().map_err(failed)?;
    let ended = tokio::select! {
        ended = engine.run_leaving(placed, console) => ended,
        signal = watch(listener, control) => {
            return Ok((Ended::Left(signal), Remains::default()));
        }
    };
    drop(raw);
    let (outcome, remains) = ended.map_err(|error| Failure::of_run(&error))?;
    Ok((Ended::Outcome(Box::new(outcome), streams), remains))
}

/// A file that did not take the output: its reader would miss something and not know it.
fn passed_on(streams: &Streams) -> Result<(), Failure> {
    for (name, lost) in [("output", &streams.stdout), ("complaints", &streams.stderr)] {
        if let Some(errno) = lost.refused() {
            let what = format!("could not write all of the program's {name}");
            return Err(Failure::new(Code::System, what).because(errno));
        }
    }
    Ok(())
}

/// What the caller should know before the program runs.
fn tell_place(placed: &Placed<'_>, because: Option<&str>, printer: &Printer) {
    if let Some(because) = because {
        printer.note(&format!("{} builds the sandbox: {because}", placed.backend.name()));
    }
    printer.detail(&format!("{} on the {} backend", placed.id, placed.backend.name()));
    printer.detail(&format!("upheld: {}", placed.upheld));
    if let Some(image) = placed.plan.image() {
        printer.detail(&format!("image {} is {}", image.name, image.digest));
        if let Some(user) = &image.user {
            let user = bulkhead_spec::escape(user);
            printer
                .detail(&format!("the image's user `{user}` is the sandbox's own user inside"));
        }
    }
    if !placed.missing.is_empty() && placed.backend.name() != "none" {
        let missing = &placed.missing;
        printer.note(&format!("not held on this host: {missing} (why: bulkhead doctor)"));
    }
}

/// A name that no other sandbox on this host has.
pub(crate) fn fresh_id() -> Result<String, Failure> {
    ahead::fresh_id()
        .map_err(|errno| Failure::new(Code::System, "could not make a name").because(errno))
}
