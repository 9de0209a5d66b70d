//! What the caller's signals mean for the program.
//!
//! Ctrl-C is passed on; the second time it becomes a request to end, the third time the end.
//! A request to end Bulkhead is passed on too, and half a second later it is no request any more.

use std::{future::pending, io, time::Duration};

use bulkhead_engine::Control;
use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep_until},
};

use super::terminal;

/// How long a program may tidy up that was asked to end together with Bulkhead.
const GRACE: Duration = Duration::from_millis(500);
/// How long the end itself may take before we leave it to the guards.
const PATIENCE: Duration = Duration::from_secs(2);

const HEARD: [Signal; 5] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::WINCH];

/// Hears the signals that are sent to Bulkhead.
pub(crate) struct Listener(UnboundedReceiver<Signal>);

impl Listener {
    /// From now on no signal ends Bulkhead by itself. Needs a runtime around it.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        for kind in HEARD {
            let mut stream = signal(SignalKind::from_raw(kind.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(kind).is_ok() {}
            });
        }
        Ok(Self(receiver))
    }
}

/// Passes signals on to the program. Returns the last one if the program does not end.
pub(crate) async fn watch(mut listener: Listener, control: UnboundedSender<Control>) -> Signal {
    let mut insistence = Insistence::default();
    loop {
        tokio::select! {
            heard = listener.0.recv() => match heard {
                Some(signal) => insistence.hear(signal, &control),
                None => return pending().await,
            },
            () = due(insistence.kill_at) => insistence.kill(&control),
            () = due(insistence.leave_at) => return insistence.last,
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// How much the caller wants the program to end.
struct Insistence {
    interrupts: u32,
    last: Signal,
    kill_at: Option<Instant>,
    leave_at: Option<Instant>,
}

impl Default for Insistence {
    fn default() -> Self {
        Self { interrupts: 0, last: Signal::TERM, kill_at: None, leave_at: None }
    }
}

impl Insistence {
    fn hear(&mut self, signal: Signal, control: &UnboundedSender<Control>) {
        match self.meaning(signal) {
            Control::Kill => self.kill(control),
            other @ (Control::Signal(_) | Control::Resize(_)) => send(control, other),
        }
    }

    fn meaning(&mut self, signal: Signal) -> Control {
        if signal == Signal::WINCH {
            return Control::Resize(terminal::size());
        }
        if signal == Signal::QUIT {
            return Control::Signal(signal);
        }
        let again = self.kill_at.is_some();
        self.last = signal;
        if signal == Signal::INT {
            self.interrupts += 1;
            return match self.interrupts {
                1 => Control::Signal(Signal::INT),
                2 => Control::Signal(Signal::TERM),
                3.. | 0 => Control::Kill,
            };
        }
        if again {
            return Control::Kill;
        }
        self.kill_at = Some(Instant::now() + GRACE);
        Control::Signal(signal)
    }

    fn kill(&mut self, control: &UnboundedSender<Control>) {
        self.kill_at = None;
        self.leave_at.get_or_insert(Instant::now() + PATIENCE);
        send(control, Control::Kill);
    }
}

fn send(control: &UnboundedSender<Control>, what: Control) {
    // Nobody listens once the program has ended, and then there is nothing to do.
    control.send(what).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::{Control, Insistence, Signal, unbounded_channel};

    fn heard(signals: &[Signal]) -> Vec<Control> {
        let (sender, mut receiver) = unbounded_channel();
        let mut insistence = Insistence::default();
        for signal in signals {
            insistence.hear(*signal, &sender);
        }
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn the_third_interrupt_ends_it() {
        assert_eq!(
            heard(&[Signal::INT; 3]),
            [Control::Signal(Signal::INT), Control::Signal(Signal::TERM), Control::Kill]
        );
    }

    #[test]
    fn a_request_to_end_is_passed_on_and_the_second_ends_it() {
        for signal in [Signal::TERM, Signal::HUP] {
            assert_eq!(heard(&[signal; 2]), [Control::Signal(signal), Control::Kill]);
        }
    }
}
