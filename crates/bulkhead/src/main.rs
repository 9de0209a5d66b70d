//! The command: the only place where arguments, environment and configuration files are read.

mod agents;
mod ahead;
mod args;
mod codes;
mod commands;
mod config;
mod console;
mod engine;
mod failure;
mod gitconfig;
mod image;
mod outside;
mod parting;
mod printer;
mod report;
mod share;
mod toolchains;
mod wish;

use std::io::{self, Write as _};

use ahead::Ahead;
use args::{Args, Verb};
use bulkhead_backends::Beginning;
use bulkhead_linux::{
    heap::Heap,
    prompt::{self, Children},
};
use commands::rooms;
use config::Environment;
use failure::Failure;
use printer::Printer;

/// As much as a start takes.
#[global_allocator]
static HEAP: Heap = Heap::new(192 * 1024);

fn main() -> ! {
    // First, or a child could take its turn before us.
    prompt::ask(Children::Usual);
    // Before anything else, because it goes on beside all that follows.
    let beginning = ahead::begin(std::env::args_os().skip(1));
    // Where it does not do so by itself, before that (`.cargo/config.toml`).
    aws_lc_rs::init();
    let code = run(beginning);
    // That a reader is gone was told by whoever wrote.
    io::stdout().flush().unwrap_or_default();
    parting::end(code)
}

/// Reads the command line, does what it says, and returns the exit code.
fn run(beginning: Option<Beginning>) -> u8 {
    let environment = Environment::read();
    let ahead = beginning.and_then(|it| Ahead::of(it, &environment));
    let mut printer = Printer::new(&environment);
    let ended = match Args::read() {
        Ok(args) => perform(args.verb, environment, ahead, &mut printer),
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            printer.usage(&error).map(|()| code).map_err(|failure| (failure, 1))
        }
    };
    ended.unwrap_or_else(|(failure, exit)| {
        printer.failure(&failure, exit);
        exit
    })
}

/// Does what was asked for; a failure comes with the exit code that the verb has for it.
fn perform(
    verb: Verb,
    environment: Environment,
    ahead: Option<Ahead>,
    printer: &mut Printer,
) -> Result<u8, (Failure, u8)> {
    let usual = verb.failure_exit();
    printer.format = verb.format();
    if let Some(name) = verb.of_this_machine() {
        rooms::house::refuse(name, &environment).map_err(|failure| (failure, usual))?;
    }
    let ended = match verb {
        Verb::Run(args) => commands::run::run(&args, environment, ahead, printer),
        Verb::Plan(args) => commands::plan::run(&args, environment, printer),
        Verb::Create(args) => rooms::create::run(&args, environment, printer),
        Verb::Exec(args) => rooms::exec::run(&args, &environment, printer),
        Verb::Cp(args) => rooms::cp::run(&args, &environment, printer),
        Verb::Port(args) => rooms::port::run(&args, &environment, printer),
        Verb::Ls(args) => rooms::list::run(&args, &environment, printer),
        Verb::Inspect(args) => rooms::show::inspect(&args, &environment, printer),
        Verb::Logs(args) => rooms::attach::logs(&args, &environment, printer),
        Verb::Attach(args) => rooms::attach::attach(&args, &environment, printer),
        Verb::Stats(args) => rooms::show::stats(&args, &environment, printer),
        Verb::Update(args) => rooms::update::run(&args, &environment, printer),
        Verb::Pool(verb) => rooms::pool::run(&verb, environment, printer),
        Verb::Pause(args) => rooms::end::pause(&args, &environment, printer),
        Verb::Resume(args) => rooms::end::resume(&args, &environment, printer),
        Verb::Start(args) => rooms::end::start(&args, &environment, printer),
        Verb::Checkpoint(verb) => rooms::checkpoint::run(&verb, &environment, printer),
        Verb::Fork(args) => rooms::fork::run(&args, &environment, printer),
        Verb::Stop(args) => rooms::end::stop(&args, &environment, printer),
        Verb::Kill(args) => rooms::end::kill(&args, &environment, printer),
        Verb::Rm(args) => rooms::end::rm(&args, &environment, printer),
        Verb::Wait(args) => rooms::end::wait(&args, &environment, printer),
        Verb::Prune(args) => rooms::end::prune(&args, &environment, printer),
        Verb::Serve(args) => commands::serve::run(&args, environment, printer),
        Verb::Key(verb) => commands::key::run(&verb, &environment, printer),
        Verb::Shim => rooms::shim::run(&environment),
        Verb::Doctor(args) => commands::doctor::run(&args, &environment, printer),
        Verb::Image(verb) => commands::image::run(&verb, &environment, printer),
        Verb::Policy(verb) => commands::policy::run(&verb, environment, printer),
        Verb::Config(verb) => commands::config::run(&verb, environment, printer),
        Verb::Trust(args) => commands::trust::run(&args, environment, printer),
        Verb::Explain(args) => commands::explain::run(&args, printer),
        Verb::Completion(args) => commands::completion::run(&args, printer),
        Verb::Version(args) => commands::version::run(&args, printer),
    };
    ended.map_err(|failure| {
        let exit = failure.exit.unwrap_or(usual);
        (failure, exit)
    })
}
