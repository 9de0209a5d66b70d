//! `bench density`: many idle sandboxes at once: what each weighs, how long it takes to end them
//! all, and that nothing is left.

mod crowd;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::account::Account;
use crate::bench::CommonArgs;
use crate::bench::density::crowd::{Crowd, Weights};
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::bench::stats;
use crate::bench::table::Table;
use crate::leaks::Watch;
use crate::print;
use crate::scratch::Scratch;
use crate::specification::Measured;
use crate::trouble::Trouble;

/// MiB of supervisor and guest per idle sandbox.
pub(super) const IDLE_MEMORY: &str = "idle.memory";
/// Seconds until none of the sandboxes is left.
pub(super) const TIME_TO_END: &str = "end.time";
/// How many mounts, cgroups, processes, interfaces or files differ afterwards.
pub(super) const LEFT_BEHIND: &str = "end.leaks";

/// The count that the promises speak of.
const PROMISED_COUNT: u32 = 500;

/// How long the kernel may take for what it ends after the last process.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct DensityArgs {
    /// How many sandboxes.
    #[arg(long, default_value_t = PROMISED_COUNT, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Start them as this ordinary user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Serialize)]
struct Results {
    machine: Machine,
    count: u32,
    user: Option<String>,
    seconds_until_all_run: f64,
    seconds_until_none_is_left: f64,
    kib_per_sandbox: Weights,
    leaks: usize,
}

pub(crate) fn run(args: &DensityArgs) -> Result<ExitCode, Trouble> {
    let machine = Machine::before_the_run();
    let account = args.user.as_deref().map(Account::named).transpose()?;
    let scratch = Scratch::new()?;
    let bulkhead = scratch.laid(&args.common.bulkhead()?)?;
    let crowd = Crowd::new(bulkhead.clone(), &scratch, account)?;

    // One life before the count starts: what is made once and stays is not a leak.
    crowd.gather(1)?.end()?;
    let watch = Watch::start(&bulkhead, watched(&scratch))?;

    print::progress(&format!("starting {} sandboxes", args.count));
    let mut idle = crowd.gather(args.count)?;
    let kib_per_sandbox = idle.weigh()?;
    print::progress("ending them all");
    let ended = idle.end()?;
    let leaks = watch.leaks(PATIENCE)?;

    let results = Results {
        machine: machine.after_the_run(),
        count: args.count,
        user: args.user.clone(),
        seconds_until_all_run: idle.took_to_start().as_secs_f64(),
        seconds_until_none_is_left: ended.as_secs_f64(),
        kib_per_sandbox,
        leaks: leaks.count(),
    };
    let report = Report {
        section: "density",
        text: results.to_string(),
        measured: results.measured(),
        data: &results,
        judges: &[IDLE_MEMORY, TIME_TO_END, LEFT_BEHIND],
    };
    let code = report.deliver(&args.common)?;
    if leaks.is_empty() {
        return Ok(code);
    }
    print::result(&format!("\nleft behind (+) or gone (-):\n{leaks}"))?;
    Ok(ExitCode::FAILURE)
}

/// Where a sandbox could leave a file: its state, the workspace, and the places of the system.
fn watched(scratch: &Scratch) -> Vec<PathBuf> {
    let system = ["/run/bulkhead", "/var/lib/bulkhead", "/run/netns"];
    system.into_iter().map(PathBuf::from).chain([scratch.path().to_owned()]).collect()
}

impl Results {
    fn measured(&self) -> Vec<Measured> {
        let mut measured = vec![
            Measured { key: IDLE_MEMORY, value: self.kib_per_sandbox.ours / 1024.0 },
            Measured {
                key: LEFT_BEHIND,
                value: u32::try_from(self.leaks).map_or(f64::INFINITY, f64::from),
            },
        ];
        // Fewer end sooner, which proves nothing about as many as were promised.
        if self.count >= PROMISED_COUNT {
            measured
                .push(Measured { key: TIME_TO_END, value: self.seconds_until_none_is_left });
        }
        measured
    }
}

impl fmt::Display for Results {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |seconds: f64| {
            let milliseconds = stats::milliseconds(Duration::from_secs_f64(seconds));
            format!("{milliseconds:.0} ms")
        };
        let weights = &self.kib_per_sandbox;
        let mut table = Table::new(["what", "figure"]);
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        row("sandboxes", self.count.to_string());
        row("as", self.user.clone().unwrap_or_else(|| "root".to_owned()));
        row("until all run", seconds(self.seconds_until_all_run));
        row("supervisor and guest, PSS each", format!("{:.0} KiB", weights.ours));
        row("of it supervisor", format!("{:.0} KiB", weights.supervisor));
        row("the program (`sleep`), PSS each", format!("{:.0} KiB", weights.program));
        row("less memory available, each", format!("{:.0} KiB", weights.of_the_machine));
        row("until none is left", seconds(self.seconds_until_none_is_left));
        row("left behind", self.leaks.to_string());
        writeln!(out, "{}.\n\n{table}", self.machine)
    }
}
