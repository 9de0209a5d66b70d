//! The guest as a program. Its control stream is descriptor 3, or with `--stdio` its input and its
//! output, for sandboxes into which no descriptor can be handed. With `--copy` it is not a guest: it
//! copies the disk of a sandbox, as it is ordered to on its input.

use std::io;

use bulkhead_guest::{Control, layer};
use bulkhead_linux::{heap::Heap, inherited, reap::end};
use rustix::fs::{Mode, OFlags};

/// There is one guest for each sandbox: nothing that it may not need.
#[global_allocator]
static HEAP: Heap = Heap::new(0);

fn main() -> ! {
    let role = std::env::args_os().nth(1).unwrap_or_default();
    if role == "--copy" {
        let copied = inherited::copy(0).and_then(|orders| layer::copy(&orders));
        end(copied.map_or(125, |()| 0));
    }
    let stdio = role == "--stdio";
    let control = if stdio { stdio_pair() } else { inherited::take(3).map(Control::socket) };
    // A failure is known to the host: it was told, or it is gone.
    match control.and_then(bulkhead_guest::serve) {
        Ok(()) => end(0),
        Err(_) => end(125),
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
