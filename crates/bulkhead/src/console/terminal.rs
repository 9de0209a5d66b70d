//! The caller's terminal while a program inside has one of its own.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use bulkhead_spec::Terminal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// What the terminal was like before we changed it. Global, because the panic hook needs it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The size of the caller's terminal.
pub(super) fn size() -> Terminal {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).ok();
    let size = size.filter(|it| it.ws_row != 0 && it.ws_col != 0);
    size.map_or(Terminal { rows: 24, columns: 80 }, |it| Terminal {
        rows: it.ws_row,
        columns: it.ws_col,
    })
}

/// Passes every key on to the program for as long as it lives.
///
/// # Guarantees
/// The terminal is as it was after a drop and after a panic, also where a panic aborts. Signals
/// that end Bulkhead are caught elsewhere and lead to a drop.
pub(crate) struct RawMode(());

impl RawMode {
    /// Switches the terminal on stdin.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        let guard = Self(());
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Never waits: a panic may have come while the lock was held.
    let Ok(mut before) = BEFORE.try_lock() else { return };
    if let Some(before) = before.take() {
        // A terminal that is gone needs no care.
        tcsetattr(io::stdin(), OptionalActions::Now, &before).unwrap_or_default();
    }
}
