//! Hostile bytes for whatever reads them, as many as there is time for.
//!
//! The program in `fuzz/` is built with coverage, which steers what is tried next. The compiler of
//! the project will do: the flags for coverage are passed to LLVM as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::bench::table::Table;
use crate::print;
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

/// Counts edges and what is compared with what, and tells the fuzzer.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Which readers, such as `request` or `guest` [default: all].
    names: Vec<String>,
    /// How long each of them is tried.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
    /// Only say which readers there are.
    #[arg(long)]
    list: bool,
}

/// What became of one reader.
struct Tried {
    inputs: String,
    covered: String,
    kept: String,
    found: Option<String>,
}

/// Tries the readers that were asked for; the exit code says whether something was found.
pub(crate) fn run(args: &FuzzArgs) -> Result<ExitCode, Trouble> {
    let names = chosen(&args.names)?;
    if args.list {
        print::result(&names.join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = build()?;
    let mut table = Table::new(["reader", "inputs", "edges", "corpus", "found"]);
    let mut code = ExitCode::SUCCESS;
    for name in names {
        print::progress(&format!("{name}: {} seconds", args.seconds));
        let tried = one(&program, &name, args.seconds)?;
        if tried.found.is_some() {
            code = ExitCode::FAILURE;
        }
        let found = tried.found.unwrap_or_else(|| "nothing".to_owned());
        table.row([name, tried.inputs, tried.covered, tried.kept, found]);
    }
    print::result(&table.to_string())?;
    Ok(code)
}

/// Every reader has inputs to begin with, so their directories are the list of readers.
fn chosen(names: &[String]) -> Result<Vec<String>, Trouble> {
    let seeds = programs::repository().join("fuzz/seeds");
    let entries =
        fs::read_dir(&seeds).or_trouble(|| "could not list `fuzz/seeds`".to_owned())?;
    let mut known: Vec<String> =
        entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    known.sort();
    if let Some(odd) = names.iter().find(|it| !known.contains(it)) {
        return Err(Trouble::new(format!("there is no reader `{odd}`; `--list` shows them")));
    }
    Ok(if names.is_empty() { known } else { names.to_vec() })
}

/// Builds the program, and says where it is.
fn build() -> Result<PathBuf, Trouble> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // For this target alone: what runs while building has nobody to tell.
    let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
    let (dir, here) = (dir(), programs::repository().join("fuzz"));
    // What is tried is made of what is shipped; the fuzzer itself comes on top.
    fs::copy(programs::repository().join("Cargo.lock"), here.join("Cargo.lock"))
        .or_trouble(|| "could not copy `Cargo.lock`".to_owned())?;
    programs::run(
        programs::command("cargo")
            .current_dir(here)
            .args(["build", "--target", &target, "--target-dir"])
            .arg(&dir)
            .env(flags, FLAGS.join(" ")),
    )?;
    Ok(dir.join(target).join("debug/bulkhead-fuzz"))
}

fn dir() -> PathBuf {
    programs::repository().join("target/fuzz")
}

fn one(program: &Path, name: &str, seconds: u32) -> Result<Tried, Trouble> {
    let (corpus, found) = (dir().join("corpus").join(name), dir().join("found").join(name));
    let scratch = dir().join("scratch");
    for dir in [&corpus, &found, &scratch] {
        fs::create_dir_all(dir).or_trouble(|| format!("could not make `{}`", dir.display()))?;
    }
    let ended = programs::command(program)
        .env("BULKHEAD_FUZZ", name)
        .env("TMPDIR", &scratch)
        .arg(&corpus)
        .arg(programs::repository().join("fuzz/seeds").join(name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1"])
        .output()
        .or_trouble(|| format!("could not start `{}`", program.display()))?;
    fs::remove_dir_all(&scratch).or_trouble(|| "could not clear what was kept".to_owned())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let after = |mark: &str| {
        let found = said.rmatch_indices(mark).next().map(|(at, _)| at + mark.len());
        let rest = found.and_then(|it| said.get(it..)).unwrap_or_default();
        rest.split_whitespace().next().unwrap_or("?").to_owned()
    };
    let found = (!ended.status.success()).then(|| {
        print::progress(&said);
        after("Test unit written to ")
    });
    Ok(Tried {
        inputs: after("stat::number_of_executed_units:"),
        covered: after(" cov: "),
        kept: after(" corp: "),
        found,
    })
}
