//! Watches over one running program.
//!
//! This is the only clock that stops a program, whatever built its sandbox.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use bulkhead_backends::{BackendError, Process, ProcessHandle, Sandbox};
use bulkhead_policy::{ExecPlan, Plan};
use bulkhead_spec::{Ending, Span, Stream};
use rustix::process::Signal;
use tokio::{sync::mpsc, time};

use crate::{
    Control, RunError,
    pump::{Ends, Patience, Pumps},
};

/// A program that has ended, and its output, which may still be on its way.
pub(crate) struct Ended {
    ending: Ending,
    output: Pumps,
}

/// What ends with a program that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every program of the sandbox: it was there for this one.
    Sandbox,
    /// The program and its process group: the others have callers of their own.
    Program,
}

/// A program that just started, and what it runs under.
pub(crate) struct Running<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) process: Box<dyn Process>,
    pub(crate) plan: &'a Plan,
    pub(crate) exec: &'a ExecPlan,
    pub(crate) extent: Extent,
}

/// Runs the program to its end, to a limit, or until the caller has had enough.
pub(crate) async fn supervise(
    running: Running<'_>,
    ends: Ends,
    mut control: mpsc::UnboundedReceiver<Control>,
) -> Result<Ended, RunError> {
    let Running { sandbox, mut process, plan, exec, extent } = running;
    let streams = process
        .take_streams()
        .ok_or_else(|| BackendError::Guest("a program came without its streams".to_owned()))?;
    let output = Pumps::start(streams, ends, plan.limits().output);
    let handle: Arc<dyn ProcessHandle> = process.handle().into();
    let passed = Passed::default();

    let stopped = tokio::select! {
        ending = process.wait() => {
            let ending = own_signal(ending?, &passed);
            return Ok(Ended { ending, output });
        }
        reached = limit_reached(sandbox, plan, exec, &output) => reached,
        signal = obey(&mut control, &*handle, &passed) => Ok(Ending::Canceled { signal }),
    };
    let ending = stopped?;
    if !warned(&mut *process, &*handle, grace(&ending, exec)).await? {
        match extent {
            Extent::Sandbox => {}
            Extent::Program => {
                handle.signal(Signal::KILL).await?;
                process.wait().await?;
            }
        }
    }
    if extent == Extent::Sandbox {
        sandbox.kill().await?;
    }
    Ok(Ended { ending, output })
}

impl Ended {
    /// How it ended, and what it said.
    ///
    /// To be called after the sandbox is gone: a straggler might hold the output open.
    pub(crate) async fn finish(self) -> (Ending, [Stream; 2]) {
        let patience = patience(&self.ending);
        self.within(patience).await
    }

    /// The same where the sandbox stays: what the program left running may hold its output open for
    /// as long as it likes.
    pub(crate) async fn finish_in_room(self) -> (Ending, [Stream; 2]) {
        self.within(Patience::Brief).await
    }

    async fn within(self, patience: Patience) -> (Ending, [Stream; 2]) {
        let (streams, exceeded) = self.output.finish(patience).await;
        let ending = match (self.ending, exceeded) {
            // It ended before it could be stopped for what it had said.
            (Ending::Exited { .. } | Ending::Signaled { .. }, Some(limit)) => {
                Ending::OutputLimit { limit }
            }
            (ending, _) => ending,
        };
        (ending, streams)
    }
}

/// Asks the program to stop if it has time to tidy up; says whether it did.
async fn warned(
    process: &mut dyn Process,
    handle: &dyn ProcessHandle,
    grace: Duration,
) -> Result<bool, RunError> {
    if grace.is_zero() {
        return Ok(false);
    }
    handle.signal(Signal::TERM).await?;
    Ok(time::timeout(grace, process.wait()).await.is_ok())
}

/// Only a deadline leaves time to tidy up: whoever floods or cancels has had theirs.
fn grace(ending: &Ending, exec: &ExecPlan) -> Duration {
    match ending {
        Ending::TimedOut { .. } => exec.grace(),
        Ending::Exited { .. }
        | Ending::Signaled { .. }
        | Ending::CpuTimeExceeded { .. }
        | Ending::OutOfMemory { .. }
        | Ending::DiskFull { .. }
        | Ending::OutputLimit { .. }
        | Ending::Canceled { .. }
        | Ending::Lost => Duration::ZERO,
    }
}

/// Whether a limit ended the program.
pub(crate) fn is_limit(ending: &Ending) -> bool {
    match ending {
        Ending::TimedOut { .. }
        | Ending::CpuTimeExceeded { .. }
        | Ending::OutOfMemory { .. }
        | Ending::DiskFull { .. }
        | Ending::OutputLimit { .. } => true,
        Ending::Exited { .. }
        | Ending::Signaled { .. }
        | Ending::Canceled { .. }
        | Ending::Lost => false,
    }
}

/// Whoever was stopped in time must not hold us up by output that nobody takes.
fn patience(ending: &Ending) -> Patience {
    match ending {
        Ending::TimedOut { .. }
        | Ending::CpuTimeExceeded { .. }
        | Ending::OutputLimit { .. }
        | Ending::Canceled { .. } => Patience::Brief,
        Ending::Exited { .. }
        | Ending::Signaled { .. }
        | Ending::OutOfMemory { .. }
        | Ending::DiskFull { .. }
        | Ending::Lost => Patience::Endless,
    }
}

/// A program that died of a signal which its caller sent was cancelled.
fn own_signal(ending: Ending, passed: &Passed) -> Ending {
    if let Ending::Signaled { signal } = ending
        && signal == passed.last.load(Ordering::Relaxed)
    {
        return Ending::Canceled { signal: passed.first.load(Ordering::Relaxed) };
    }
    ending
}

/// Returns when the program has used up its time, its processor time or its output.
async fn limit_reached(
    sandbox: &dyn Sandbox,
    plan: &Plan,
    exec: &ExecPlan,
    output: &Pumps,
) -> Result<Ending, RunError> {
    tokio::select! {
        limit = deadline(exec.timeout()) => Ok(Ending::TimedOut { limit }),
        limit = output.exceeded() => Ok(Ending::OutputLimit { limit }),
        limit = cpu_time_used(sandbox, plan) => Ok(Ending::CpuTimeExceeded { limit: limit? }),
    }
}

async fn deadline(timeout: Option<Duration>) -> Span {
    match timeout {
        Some(timeout) => {
            time::sleep(timeout).await;
            Span(timeout)
        }
        None => std::future::pending().await,
    }
}

/// Looks at the processor time again when it could be used up at the earliest.
async fn cpu_time_used(sandbox: &dyn Sandbox, plan: &Plan) -> Result<Span, RunError> {
    let Some(limit) = plan.limits().cpu_time else { return std::future::pending().await };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    loop {
        let used = sandbox.usage()?.cpu.unwrap_or_default();
        let left = limit.0.saturating_sub(used);
        if left.is_zero() {
            return Ok(limit);
        }
        let earliest = left / processors;
        time::sleep(earliest.max(Duration::from_millis(5))).await;
    }
}

/// The signals that were passed on: what the caller first said is what the run is known by, whatever
/// it took after that.
#[derive(Default)]
struct Passed {
    first: AtomicI32,
    last: AtomicI32,
}

impl Passed {
    fn note(&self, signal: Signal) {
        let signal = signal.as_raw();
        self.last.store(signal, Ordering::Relaxed);
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(signal, Ordering::Relaxed);
        }
    }
}

/// Does what the caller says until the caller says to end it; returns the first signal.
async fn obey(
    control: &mut mpsc::UnboundedReceiver<Control>,
    handle: &dyn ProcessHandle,
    passed: &Passed,
) -> i32 {
    while let Some(control) = control.recv().await {
        let done = match control {
            Control::Signal(signal) => {
                passed.note(signal);
                handle.signal(signal).await
            }
            Control::Resize(terminal) => handle.resize(terminal).await,
            Control::Kill => {
                let first = passed.first.load(Ordering::Relaxed);
                return if first == 0 { Signal::KILL.as_raw() } else { first };
            }
        };
        if let Err(error) = done {
            // The program may just have ended; whoever waits for it will tell.
            tracing::debug!(%error, "could not pass on");
        }
    }
    std::future::pending().await
}
