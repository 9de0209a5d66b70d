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

use super::{keys::Answers, terminal};

/// How long a program may tidy up that was asked to end together with Bulkhead.
const GRACE: Duration = Duration::from_millis(500);
/// How long the end itself may take before we leave it to the guards.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ctrl-C on the program's own terminal is insistent if it comes again so soon.
const SOON: Duration = Duration::from_secs(2);

const SIGNALS: [Signal; 5] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::WINCH];

/// What the caller did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Sent a signal to Bulkhead.
    Signal(Signal),
    /// Typed Ctrl-C on the program's own terminal; the program has it already.
    Interrupt,
    /// Typed something else there.
    Key,
}

/// Hears the signals that are sent to Bulkhead.
pub(crate) struct Listener {
    receiver: UnboundedReceiver<Heard>,
    pub(super) sender: UnboundedSender<Heard>,
    pub(super) answers: Answers,
}

impl Listener {
    /// From now on no signal ends Bulkhead by itself. Needs a runtime around it.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        for kind in SIGNALS {
            let mut stream = signal(SignalKind::from_raw(kind.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(Heard::Signal(kind)).is_ok()
                {
                }
            });
        }
        Ok(Self { receiver, sender, answers: Answers::default() })
    }
}

/// Passes signals on to the program. Returns the last one if the program does not end.
pub(crate) async fn watch(mut listener: Listener, control: UnboundedSender<Control>) -> Signal {
    let mut insistence = Insistence::default();
    loop {
        tokio::select! {
            heard = listener.receiver.recv() => match heard {
                Some(heard) => insistence.hear(heard, listener.answers.count(), &control),
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
    /// When Ctrl-C was typed last, and how much the program had printed by then.
    typed: Option<(Instant, u64)>,
    last: Signal,
    kill_at: Option<Instant>,
    leave_at: Option<Instant>,
}

impl Default for Insistence {
    fn default() -> Self {
        Self { interrupts: 0, typed: None, last: Signal::TERM, kill_at: None, leave_at: None }
    }
}

impl Insistence {
    fn hear(&mut self, heard: Heard, answers: u64, control: &UnboundedSender<Control>) {
        match self.meaning(heard, answers) {
            None => {}
            Some(Control::Kill) => self.kill(control),
            Some(other @ (Control::Signal(_) | Control::Resize(_))) => send(control, other),
        }
    }

    fn meaning(&mut self, heard: Heard, answers: u64) -> Option<Control> {
        match heard {
            Heard::Key => {
                self.typed = None;
                None
            }
            Heard::Interrupt => {
                let again = self.typed.filter(|it| it.0.elapsed() < SOON && it.1 == answers);
                if again.is_none() {
                    self.interrupts = 0;
                }
                self.typed = Some((Instant::now(), answers));
                // The first one has reached the program as a key.
                Some(self.interrupted()).filter(|it| *it != Control::Signal(Signal::INT))
            }
            Heard::Signal(Signal::WINCH) => Some(Control::Resize(terminal::size())),
            Heard::Signal(Signal::QUIT) => Some(Control::Signal(Signal::QUIT)),
            Heard::Signal(Signal::INT) => Some(self.interrupted()),
            Heard::Signal(signal) => {
                self.last = signal;
                if self.kill_at.is_some() {
                    return Some(Control::Kill);
                }
                self.kill_at = Some(Instant::now() + GRACE);
                Some(Control::Signal(signal))
            }
        }
    }

    fn interrupted(&mut self) -> Control {
        self.last = Signal::INT;
        self.interrupts += 1;
        match self.interrupts {
            1 => Control::Signal(Signal::INT),
            2 => Control::Signal(Signal::TERM),
            3.. | 0 => Control::Kill,
        }
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
    use super::{Control, Heard, Insistence, Signal, unbounded_channel};

    const INTERRUPT: Control = Control::Signal(Signal::INT);
    const END: Control = Control::Signal(Signal::TERM);

    /// What comes of it, with how much the program had printed at each time.
    fn heard(heard: &[(Heard, u64)]) -> Vec<Control> {
        let (sender, mut receiver) = unbounded_channel();
        let mut insistence = Insistence::default();
        for (heard, answers) in heard {
            insistence.hear(*heard, *answers, &sender);
        }
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn the_third_interrupt_ends_it() {
        let signal = (Heard::Signal(Signal::INT), 0);
        assert_eq!(heard(&[signal; 3]), [INTERRUPT, END, Control::Kill]);
    }

    #[test]
    fn a_request_to_end_is_passed_on_and_the_second_ends_it() {
        for signal in [Signal::TERM, Signal::HUP] {
            let signals = [(Heard::Signal(signal), 0); 2];
            assert_eq!(heard(&signals), [Control::Signal(signal), Control::Kill]);
        }
    }

    #[test]
    fn a_program_that_does_not_answer_its_own_terminal_is_ended_too() {
        assert_eq!(heard(&[(Heard::Interrupt, 5); 3]), [END, Control::Kill]);
    }

    #[test]
    fn a_program_that_answers_is_left_alone() {
        let answered = [0, 9, 20, 31].map(|answers| (Heard::Interrupt, answers));
        assert_eq!(heard(&answered), []);
        let typed =
            [Heard::Interrupt, Heard::Key, Heard::Interrupt, Heard::Key, Heard::Interrupt];
        assert_eq!(heard(&typed.map(|it| (it, 0))), []);
    }
}
