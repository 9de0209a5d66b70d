//! What is said about a program that did not just exit.

use bulkhead_spec::{Ending, Outcome};
use rustix::process::Signal;

use crate::printer::Printer;

/// Says how it ended, and what would let it go on next time.
pub(crate) fn tell(outcome: &Outcome, printer: &Printer) {
    tell_ending(&outcome.ending, printer);
    if outcome.usage.process_refusals != 0 {
        printer.note(
            "a new process was refused: the sandbox had all it may have (raise it with --pids)",
        );
    }
}

/// Says how a program ended, where that deserves a word.
pub(crate) fn tell_ending(ending: &Ending, printer: &Printer) {
    if let Some(text) = sentence(ending) {
        printer.note(&text);
    }
}

fn sentence(ending: &Ending) -> Option<String> {
    let all = |limit: &Option<bulkhead_spec::Bytes>| match limit {
        Some(limit) => format!("its {limit}"),
        None => "all there was".to_owned(),
    };
    Some(match ending {
        Ending::Exited { .. } | Ending::Canceled { .. } => return None,
        Ending::Signaled { signal } if quiet(*signal) => return None,
        Ending::Signaled { signal } => format!("the program was ended by {}", name(*signal)),
        Ending::TimedOut { limit } => {
            format!("timed out: the program ran for its {limit} (raise it with --timeout)")
        }
        Ending::CpuTimeExceeded { limit } => {
            format!("out of CPU time: the sandbox used its {limit} (raise it with --cpu-time)")
        }
        Ending::OutOfMemory { limit } => {
            let used = all(limit);
            format!("out of memory: the sandbox used {used} (raise it with --memory)")
        }
        Ending::DiskFull { limit } => {
            let used = all(limit);
            format!("disk full: the sandbox wrote {used} (raise it with --disk)")
        }
        Ending::OutputLimit { limit } => {
            format!(
                "too much output: the program printed more than {limit} (raise it with --output)"
            )
        }
        Ending::Lost => "the sandbox went away, and how is not known".to_owned(),
    })
}

/// Signals of which a shell makes no fuss either.
fn quiet(signal: i32) -> bool {
    [Signal::INT, Signal::PIPE].iter().any(|it| it.as_raw() == signal)
}

fn name(signal: i32) -> String {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let found = known.iter().find(|(it, _)| it.as_raw() == signal);
    found.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}
