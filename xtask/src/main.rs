//! Chores of the project: what is run by hand or by CI and never shipped.

mod account;
mod bench;
mod drill;
mod fuzz;
mod leaks;
mod print;
mod processes;
mod programs;
mod scratch;
mod specification;
mod trouble;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::BenchCommand;
use crate::drill::DrillArgs;
use crate::fuzz::FuzzArgs;
use crate::vm::Vm;

/// Chores of the Bulkhead project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measure Bulkhead against its peers and against what SPECIFICATION.md promises.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Do to rooms what may go wrong, and look at what is left.
    Drill(DrillArgs),
    /// Feed hostile bytes to whatever reads them, steered by coverage.
    Fuzz(FuzzArgs),
    /// Run the tests in a virtual machine with cgroup v2 and a systemd user session.
    #[command(subcommand)]
    Vm(Vm),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Chore::Bench(command) => bench::run(command),
        Chore::Drill(args) => drill::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Vm(verb) => vm::run(verb),
    };
    match done {
        Ok(code) => code,
        Err(trouble) => {
            print::trouble(&trouble);
            ExitCode::FAILURE
        }
    }
}
