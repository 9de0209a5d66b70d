//! What the guest says, checked and passed on to whom it concerns.

use std::{
    io,
    sync::{Arc, MutexGuard, PoisonError},
};

use bulkhead_guest::{
    protocol::{Accepted, Datagram, FIRST_OF_GUEST, Flow, MOST_DATAGRAM, ToHost, files::Filed},
    wire::{Frame, Inbox},
};
use bulkhead_linux::launch::Stage;

use super::{
    channel::Channel,
    listener::Connection,
    pipe::{Pipe, Ways},
    program::Ended,
    state::{Known, Order, Standing, State},
};

/// A rule that the guest broke.
type Broken = &'static str;

/// What was passed on to somebody who is not there; to be dropped when nothing is locked.
#[derive(Default)]
struct Unwanted(Vec<Channel>);

/// Passes on everything in `inbox`.
pub(super) fn dispatch(state: &Arc<State>, inbox: &mut Inbox) -> io::Result<()> {
    let mut unwanted = Unwanted::default();
    let mut known = state.known();
    let broken = loop {
        let heard = match inbox.frame::<ToHost>() {
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
            Ok(Some(Frame::Data { channel, bytes })) => known.data(channel, bytes),
            Ok(Some(Frame::Message(message))) => {
                known.hear(message, inbox, state, &mut unwanted)
            }
        };
        if let Err(rule) = heard {
            break Err(io::Error::other(rule));
        }
    };
    drop(known);
    drop(unwanted);
    broken
}

impl Known {
    fn data(&mut self, channel: u32, bytes: &[u8]) -> Result<(), Broken> {
        let pipe = self.channels.get(&channel).ok_or("bytes of a channel that is not open")?;
        locked(pipe).hearing.arrive(bytes)
    }

    fn hear(
        &mut self,
        message: ToHost,
        inbox: &mut Inbox,
        state: &Arc<State>,
        unwanted: &mut Unwanted,
    ) -> Result<(), Broken> {
        match message {
            ToHost::Ready => self.stand(Standing::Ready),
            ToHost::Failed { action, errno } => self.stand(Standing::Failed { action, errno }),
            ToHost::Started { id, pid } => self.started(id, pid, inbox),
            ToHost::NotStarted { id, stage, errno } => self.not_started(id, stage, errno),
            ToHost::Ended { id, status, disk, counted } => {
                let asked = self.programs.remove(&id).ok_or("the end of an unknown program")?;
                if asked.started.is_some() {
                    return Err("the end of a program that it had not started");
                }
                asked.ended.send_replace(Some(Ended { status, disk, counted }));
                Ok(())
            }
            ToHost::Connected { channel } => {
                let waits = self.dialled.remove(&channel).ok_or("an unknown connection")?;
                let pipe = self.channels.get(&channel).ok_or("an unknown connection")?;
                let made = Channel::new(channel, Arc::clone(pipe), Arc::clone(state));
                unwanted.0.extend(waits.send(Ok(made)).err().and_then(Result::ok));
                Ok(())
            }
            ToHost::NotConnected { channel, errno } => {
                let waits = self.dialled.remove(&channel).ok_or("an unknown connection")?;
                self.channels.remove(&channel);
                // Nobody waits for a connection that failed, or somebody does.
                drop(waits.send(Err(errno)));
                Ok(())
            }
            ToHost::Listening { id } => self.listening(id, Ok(())),
            ToHost::NotListening { id, errno } => {
                self.listening(id, Err(errno))?;
                self.listening.remove(&id);
                Ok(())
            }
            ToHost::Accepted(accepted) => self.accept(accepted, state, unwanted),
            ToHost::Datagram(datagram) => self.datagram(datagram),
            ToHost::Filed { id, filed } => {
                let waits = match self.orders.remove(&id).ok_or("an answer to no order")? {
                    Order::Once(end) => end,
                    Order::Twice(beginning, end) => {
                        // One that did not begin has ended.
                        if matches!(filed, Filed::Is(_)) {
                            self.orders.insert(id, Order::Once(end));
                        }
                        beginning
                    }
                };
                // Nobody may wait for it any more.
                drop(waits.send(filed));
                Ok(())
            }
            ToHost::Flow(flow) => self.flow(flow),
        }
    }

    fn stand(&mut self, standing: Standing) -> Result<(), Broken> {
        let before = self.standing.send_replace(standing);
        match before {
            Standing::Unknown => Ok(()),
            Standing::Ready | Standing::Failed { .. } => Err("its walls stood before"),
        }
    }

    fn started(&mut self, id: u32, pid: u32, inbox: &mut Inbox) -> Result<(), Broken> {
        let asked = self.programs.get_mut(&id).ok_or("the start of an unknown program")?;
        let waits = asked.started.take().ok_or("the second start of a program")?;
        let terminal = if asked.terminal {
            Some(inbox.descriptor().ok_or("a terminal that did not arrive")?)
        } else {
            None
        };
        // If nobody waits, it runs on without anybody's looking, until it ends.
        drop(waits.send(Ok((pid, terminal))));
        Ok(())
    }

    fn not_started(&mut self, id: u32, stage: Stage, errno: i32) -> Result<(), Broken> {
        let asked = self.programs.remove(&id).ok_or("the failure of an unknown program")?;
        let waits = asked.started.ok_or("the failure of a program that had started")?;
        for channel in asked.carried {
            self.channels.remove(&channel);
        }
        drop(waits.send(Err((stage, errno))));
        Ok(())
    }

    fn listening(&mut self, id: u32, answer: Result<(), i32>) -> Result<(), Broken> {
        let heard = self.listening.get_mut(&id).ok_or("an unknown listener")?;
        let waits = heard.listening.take().ok_or("a second answer of a listener")?;
        waits.send(answer).unwrap_or_default();
        Ok(())
    }

    fn accept(
        &mut self,
        accepted: Accepted,
        state: &Arc<State>,
        unwanted: &mut Unwanted,
    ) -> Result<(), Broken> {
        let Accepted { channel: id, listener, local, peer } = accepted;
        if id < self.next_of_guest {
            return Err("a channel under a number that is not new");
        }
        let most: usize = self.listening.values().map(|it| it.most).sum();
        let open = self.channels.range(FIRST_OF_GUEST..).count();
        if most <= open {
            return Err("more connections than allowed");
        }
        self.next_of_guest = id.checked_add(1).ok_or("the last of all numbers")?;
        let connections = self.listening.get(&listener).map(|it| it.connections.clone());
        let connections = connections.ok_or("a connection of no listener")?;
        // From here on nothing fails: a channel that is dropped locks what is locked here.
        let pipe = self.open(id, Ways::Both);
        let channel = Channel::new(id, pipe, Arc::clone(state));
        let connection = Connection { channel, local, peer };
        if let Err(lost) = connections.send(connection) {
            unwanted.0.push(lost.0.channel);
        }
        Ok(())
    }

    fn datagram(&mut self, datagram: Datagram) -> Result<(), Broken> {
        let heard =
            self.listening.get(&datagram.listener).ok_or("a datagram of no listener")?;
        if MOST_DATAGRAM < datagram.bytes.len() {
            return Err("a datagram longer than allowed");
        }
        // Those that nobody takes in time are lost, as datagrams are.
        drop(heard.datagrams.try_send(datagram));
        Ok(())
    }

    fn flow(&mut self, flow: Flow) -> Result<(), Broken> {
        match flow {
            Flow::Credit { channel, bytes } => match self.channels.get(&channel) {
                Some(pipe) => locked(pipe).speaking.grant(bytes),
                // Said before it heard that we had finished.
                None => self.was_open(channel),
            },
            Flow::Refuse { channel } => match self.channels.get(&channel) {
                Some(pipe) => {
                    locked(pipe).speaking.refuse();
                    Ok(())
                }
                None => self.was_open(channel),
            },
            Flow::Finish { channel } => {
                let pipe = self
                    .channels
                    .get(&channel)
                    .ok_or("the end of a channel that is not open")?;
                let mut pipe = locked(pipe);
                if !pipe.hearing.is_open() {
                    return Err("a second end of a channel");
                }
                pipe.hearing.finish();
                drop(pipe);
                self.forget_if_over(channel);
                Ok(())
            }
        }
    }

    fn was_open(&self, channel: u32) -> Result<(), Broken> {
        let ours = channel < self.next_channel && channel != 0;
        let theirs = (FIRST_OF_GUEST..self.next_of_guest).contains(&channel);
        if ours || theirs { Ok(()) } else { Err("a channel that never was") }
    }
}

fn locked(pipe: &std::sync::Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}
