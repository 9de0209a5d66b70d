//! The guest as a program. Its control stream is descriptor 3.

use std::process::ExitCode;

/// The C library's own allocator asks the kernel for memory page by page, which costs more than
/// all else that the guest does.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let Ok(control) = bulkhead_linux::inherited::take(3) else { return ExitCode::from(125) };
    match bulkhead_guest::serve(control) {
        Ok(()) => ExitCode::SUCCESS,
        // The host has been told, or is gone.
        Err(_) => ExitCode::from(125),
    }
}
