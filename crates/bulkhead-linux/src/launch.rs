//! Starts a program from the guest.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use rustix::{io::Errno, process::Pid};

use crate::{beside::Here, clone::vfork, prompt, sys};

/// A program to start.
pub struct Program {
    /// Where it may be: the first of these that exists is run.
    pub candidates: Vec<CString>,
    /// Its name for itself and its arguments.
    pub argv: Vec<CString>,
    /// Its variables, each `NAME=value`.
    pub env: Vec<CString>,
    /// Where it starts.
    pub dir: CString,
    /// What it reads and writes.
    pub stdio: [OwnedFd; 3],
    /// Whether its input is a terminal that becomes its own.
    pub terminal: ControllingTerminal,
}

/// Whether a program gets a terminal of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllingTerminal {
    /// Its input is one.
    Input,
    /// It has none.
    None,
}

/// Why a program did not start.
#[derive(Debug)]
pub struct LaunchFailed {
    /// How far it came.
    pub stage: Stage,
    /// What the kernel said.
    pub source: io::Error,
}

/// How far a program came that did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Stage {
    /// It got no process.
    Clone,
    /// Its session, terminal or streams could not be set up.
    Prepare,
    /// Its working directory cannot be entered.
    Dir,
    /// It cannot be run.
    Execute,
}

struct Shared {
    candidates: Vec<usize>,
    argv: Vec<usize>,
    env: Vec<usize>,
    dir: usize,
    stdio: [RawFd; 3],
    terminal: ControllingTerminal,
    /// Where it begins.
    here: Option<Here>,
    stage: AtomicU32,
    errno: AtomicI32,
}

/// Starts `program` as the leader of a new session.
pub fn launch(program: Program) -> Result<Pid, LaunchFailed> {
    let addresses = |texts: &[CString]| -> Vec<usize> {
        texts.iter().map(|text| text.as_ptr().addr()).chain([0]).collect()
    };
    let shared = Shared {
        candidates: program.candidates.iter().map(|text| text.as_ptr().addr()).collect(),
        argv: addresses(&program.argv),
        env: addresses(&program.env),
        dir: program.dir.as_ptr().addr(),
        stdio: program.stdio.each_ref().map(AsRawFd::as_raw_fd),
        terminal: program.terminal,
        here: Here::stay(),
        stage: AtomicU32::new(0),
        errno: AtomicI32::new(0),
    };
    // SAFETY: this thread sleeps until the child has executed or exited, so `shared` and `program`
    // outlive its use; `run` allocates nothing and never returns.
    let pid = unsafe { vfork(run, &raw const shared) };
    shared.here.iter().for_each(Here::free);
    let (pid, stack) = pid.map_err(|source| LaunchFailed { stage: Stage::Clone, source })?;
    // First of all: whoever reads what it writes is woken by that if it has ended already.
    drop(program);
    match shared.errno.load(Ordering::Acquire) {
        0 => {
            prompt::take_back(pid);
            drop(stack);
            Ok(pid)
        }
        errno => {
            let stage = match shared.stage.load(Ordering::Relaxed) {
                0 => Stage::Prepare,
                1 => Stage::Dir,
                _ => Stage::Execute,
            };
            Err(LaunchFailed { stage, source: io::Error::from_raw_os_error(errno) })
        }
    }
}

extern "C" fn run(shared: *const Shared) -> ! {
    // SAFETY: the parent sleeps until this child is gone from its memory.
    let shared = unsafe { &*shared };
    shared.here.iter().for_each(Here::free);
    let errno = match prepare(shared) {
        Ok(()) => execute(shared),
        Err(errno) => errno,
    };
    shared.errno.store(errno.raw_os_error(), Ordering::Release);
    sys::exit(127)
}

fn prepare(shared: &Shared) -> Result<(), Errno> {
    rustix::process::setsid()?;
    // SAFETY: the parent keeps the three descriptors open.
    let [input, ..] = shared.stdio.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    if shared.terminal == ControllingTerminal::Input {
        rustix::process::ioctl_tiocsctty(input)?;
    }
    for (target, fd) in shared.stdio.into_iter().enumerate() {
        let fd = fd.unsigned_abs() as usize;
        // SAFETY: dup3 takes three numbers; the descriptors are above 2, so none is overwritten.
        unsafe { sys::call(libc::SYS_dup3, [fd, target, 0, 0, 0]) }?;
    }
    // Closed, and not only marked: an inherited descriptor is a door (CVE-2024-21626).
    // Up to the highest that there can be; gVisor refuses more.
    // SAFETY: close_range takes three numbers.
    unsafe { sys::call(libc::SYS_close_range, [3, i32::MAX as usize, 0, 0, 0]) }?;
    plain_signals()?;
    // SAFETY: umask takes one number.
    unsafe { sys::call(libc::SYS_umask, [0o022, 0, 0, 0, 0]) }?;
    shared.stage.store(1, Ordering::Relaxed);
    // SAFETY: the directory is a C string of the parent's.
    unsafe { sys::call(libc::SYS_chdir, [shared.dir, 0, 0, 0, 0]) }?;
    let mut here = [0_u8; 4096];
    // SAFETY: the buffer is as long as said. A directory outside the root has no path.
    unsafe { sys::call(libc::SYS_getcwd, [here.as_mut_ptr().addr(), here.len(), 0, 0, 0]) }?;
    if here.first() != Some(&b'/') {
        return Err(Errno::NOENT);
    }
    shared.stage.store(2, Ordering::Relaxed);
    Ok(())
}

/// Signals as a program expects them: none blocked, and SIGPIPE, which our runtime ignores, deadly.
fn plain_signals() -> Result<(), Errno> {
    let nothing = [0_u64; 4];
    let nothing = (&raw const nothing).addr();
    let how = libc::SIG_SETMASK.unsigned_abs() as usize;
    // SAFETY: the set is as long as said.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [how, nothing, 0, size_of::<u64>(), 0]) }?;
    let pipe = libc::SIGPIPE.unsigned_abs() as usize;
    // SAFETY: an all-zero kernel `sigaction` is the default action with an empty mask.
    unsafe { sys::call(libc::SYS_rt_sigaction, [pipe, nothing, 0, size_of::<u64>(), 0]) }
        .map(drop)
}

/// Tries each candidate as a shell would, and returns why none could be run.
fn execute(shared: &Shared) -> Errno {
    let mut refused = Errno::NOENT;
    for candidate in &shared.candidates {
        let args = [*candidate, shared.argv.as_ptr().addr(), shared.env.as_ptr().addr(), 0, 0];
        // SAFETY: a C string and two lists of C strings that end with null.
        match unsafe { sys::call(libc::SYS_execve, args) } {
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => refused = errno,
        }
    }
    refused
}
