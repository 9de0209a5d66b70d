//! Drills: what may go wrong with rooms, done on purpose.
//!
//! Each is a script of its own that kills, fills, stops or spoils something and then looks at what
//! users would see. Whatever it does, it ends with the leak check: no mount, cgroup, process,
//! interface or file may be there that was not there before.

mod api;
mod clock;
mod crowd;
mod doors;
mod limits;
mod loss;
mod points;
mod site;
mod state;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::bench::table::Table;
use crate::drill::site::Site;
use crate::leaks::Watch;
use crate::print;
use crate::programs;
use crate::trouble::Trouble;

/// How long the kernel and the next start may take for what is left to them.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(crate) struct DrillArgs {
    /// Which, such as `R1` or `R13` [default: all].
    names: Vec<String>,
    /// Fewer rooms and cycles, for a test that is run often.
    #[arg(long)]
    quick: bool,
    /// Only say which drills there are.
    #[arg(long)]
    list: bool,
    /// The program to try, a debug build: only that one can be told where to die [default: the one
    /// in `target/debug`].
    #[arg(long, value_name = "PATH")]
    bulkhead: Option<PathBuf>,
}

/// One drill.
struct Drill {
    name: &'static str,
    what: &'static str,
    /// Does it; says what was seen, or what was not as it must be.
    run: fn(&Site) -> Result<Seen, Trouble>,
}

/// What a drill came to.
enum Seen {
    /// It was as it must be; this is worth telling.
    Held(String),
    /// It cannot be tried here, for this reason.
    Untried(String),
}

/// How large a drill is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Quick,
    Whole,
}

const DRILLS: [&Drill; 20] = [
    &loss::SERVER,
    &points::POINTS,
    &loss::SHIM_AND_GUEST,
    &limits::DISK,
    &limits::POOLS,
    &limits::MEMORY,
    &state::REBOOT,
    &clock::WALL_CLOCK,
    &clock::STOPPED,
    &crowd::MANY,
    &crowd::CYCLES,
    &limits::SLOW_DISK,
    &state::SPOILT,
    &state::TWO_AT_ONCE,
    &state::UPGRADE,
    &doors::KILLED,
    &doors::POINTS,
    &doors::DISK,
    &doors::CYCLES,
    &doors::VANISHED,
];

/// Runs the drills that were asked for; the exit code says whether all of them held.
pub(crate) fn run(args: &DrillArgs) -> Result<ExitCode, Trouble> {
    if args.list {
        for drill in DRILLS {
            print::result(&format!("{:4} {}", drill.name, drill.what))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&args.names)?;
    let bulkhead = program(args)?;
    let size = if args.quick { Size::Quick } else { Size::Whole };
    let mut table = Table::new(["drill", "what", "result"]);
    let mut code = ExitCode::SUCCESS;
    for drill in chosen {
        print::progress(&format!("{}: {}", drill.name, drill.what));
        let result = match twice(drill, &bulkhead, size) {
            Ok(result) => result,
            Err(trouble) => {
                code = ExitCode::FAILURE;
                format!("FAILED: {}", programs::last_line(&trouble.sentence()))
            }
        };
        table.row([drill.name.to_owned(), drill.what.to_owned(), result]);
    }
    print::result(&table.to_string())?;
    Ok(code)
}

/// One drill, and what to tell of it. A quick one that fails gets a second try, as every test does,
/// and both are told.
fn twice(drill: &Drill, bulkhead: &Path, size: Size) -> Result<String, Trouble> {
    let once = || {
        let seen = Site::new(bulkhead.to_owned(), size).and_then(|site| one(drill, &site));
        seen.inspect_err(|trouble| {
            print::progress(&format!("{} FAILED: {}", drill.name, trouble.sentence()));
        })
    };
    let told = |seen| match seen {
        Seen::Held(seen) => seen,
        Seen::Untried(why) => format!("ignored: {why}"),
    };
    match (once(), size) {
        (Err(first), Size::Quick) => {
            let why = programs::last_line(&first.sentence());
            once().map(|seen| format!("FLAKY ({why}): {}", told(seen)))
        }
        (seen, Size::Quick | Size::Whole) => seen.map(told),
    }
}

/// One drill, between two looks at the host.
fn one(drill: &Drill, site: &Site) -> Result<Seen, Trouble> {
    // What is made once and stays is no leak.
    site.warm_up()?;
    let watch = Watch::start(site.bulkhead(), site.watched())?;
    let seen = (drill.run)(site);
    let forgotten = site.forget_all();
    let leaks = watch.leaks(PATIENCE)?;
    let seen = seen?;
    forgotten?;
    if leaks.is_empty() {
        return Ok(seen);
    }
    Err(Trouble::new(format!("left behind (+) or gone (-):\n{leaks}")))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Drill>, Trouble> {
    if names.is_empty() {
        return Ok(DRILLS.to_vec());
    }
    let known = |name: &String| {
        let found = DRILLS.into_iter().find(|it| it.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            Trouble::new(format!("there is no drill `{name}`; `--list` shows them"))
        })
    };
    names.iter().map(known).collect()
}

fn program(args: &DrillArgs) -> Result<PathBuf, Trouble> {
    let built = programs::repository().join("target/debug/bulkhead");
    let path = args.bulkhead.clone().unwrap_or(built);
    path.canonicalize().map_err(|_| {
        let path = path.display();
        Trouble::new(format!("there is no `{path}`; build it with `cargo build -p bulkhead`"))
    })
}
