//! The guest as a program. Its control stream is descriptor 3, or with `--stdio` its input and its
//! output, for sandboxes into which no descriptor can be handed. With `--copy` it is not a guest: it
//! copies the disk of a sandbox, as it is ordered to on its input. With `--apart ID` it is root where
//! nobody should be: it becomes the user `ID` of a namespace of its own first.

#![no_main]

use std::{
    ffi::{CStr, c_char, c_int},
    io,
};

use bulkhead_guest::{Control, layer};
use bulkhead_linux::{
    apart, begin,
    heap::Heap,
    inherited,
    prompt::{self, Children},
    reap::end,
};
use rustix::fs::{Mode, OFlags};

/// There is one guest for each sandbox: nothing that it may not need.
#[global_allocator]
static HEAP: Heap = Heap::new(0);

/// What the system calls.
#[expect(unsafe_code, reason = "the name is the system's, and so are the arguments")]
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    // SAFETY: both are what the system gave us.
    let mut words = unsafe { begin::words(count, words) }.skip(1);
    run(words.next().unwrap_or_default(), words.next())
}

fn run(role: &CStr, id: Option<&CStr>) -> ! {
    // Who cannot has no readers either.
    begin::outlive_readers().unwrap_or_default();
    if role == c"--copy" {
        let copied = inherited::copy(0).and_then(|orders| layer::copy(&orders));
        end(copied.map_or(125, |()| 0));
    }
    if role == c"--apart" {
        let error = set_apart(id);
        // Nobody is left to tell if this fails too.
        stdio_pair()
            .and_then(|it| it.fail("make a user namespace", &error))
            .unwrap_or_default();
        end(125);
    }
    // What it starts is waited for, too, until it is a program.
    prompt::ask(Children::Alike);
    let stdio = role == c"--stdio";
    let control = if stdio { stdio_pair() } else { inherited::take(3).map(Control::socket) };
    // A failure is known to the host: it was told, or it is gone.
    match control.and_then(bulkhead_guest::serve) {
        Ok(()) => end(0),
        Err(_) => end(125),
    }
}

/// Starts again as somebody else. Returns only why that could not be.
fn set_apart(id: Option<&CStr>) -> io::Error {
    let id = id.and_then(|it| it.to_str().ok()?.parse().ok());
    let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
    match id.and_then(apart::become_user) {
        Ok(()) => apart::start_again(c"--stdio"),
        Err(error) => error,
    }
}

/// Takes input and output for the control stream, and leaves nothing in their places.
fn stdio_pair() -> io::Result<Control> {
    let (input, output) = (inherited::copy(0)?, inherited::copy(1)?);
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(Control::pipes(input, output))
}
