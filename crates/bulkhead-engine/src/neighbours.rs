//! A private network: sandboxes that reach each other by name, and that nobody else reaches.
//!
//! Each member has a cable to its supervisor ([`bulkhead_backends::cable`]). The supervisors of one
//! network pass packets to each other by sockets in a directory that is their user's alone; who
//! has which name and address is known there by locks, which end with their holders. The host has
//! no interface in it, and no rule or bridge is made for it.
//!
//! Invariant: what a member sends bears its own address, and what it gets is for that address.
//! Both are looked at by its own supervisor.

mod packet;
mod register;
mod switch;

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
};

use bulkhead_backends::guest::{Link, To};
use bulkhead_egress::{Duplex, Neighbours, Reaching};
use bulkhead_spec::{HostName, Label, NeighbourUsage};

pub(crate) use self::{packet::check as check_packet, register::JoinFailed};
use self::{register::Seat, switch::Switch};

/// A place in a private network. Dropping it leaves the network.
pub(crate) struct Member {
    // Declared before the seat: nobody passes on what is for a name that is somebody else's.
    switch: Option<Switch>,
    seat: Arc<Seat>,
}

impl Member {
    /// Takes a place in `network` for a sandbox that its neighbours call `name`.
    pub(crate) fn join(
        networks: &Path,
        network: &Label,
        name: &Label,
    ) -> Result<Self, JoinFailed> {
        Ok(Self { switch: None, seat: Arc::new(Seat::take(networks, network, name)?) })
    }

    /// The network, and its own address in it.
    pub(crate) fn place(&self) -> (Label, Ipv4Addr) {
        (self.seat.network().clone(), self.seat.address())
    }

    /// Who dials neighbours for programs that ask a proxy for them: the guest, as those programs
    /// would themselves.
    pub(crate) fn dial_by(&self, link: Link) {
        // There is one guest for each sandbox.
        drop(self.seat.link.set(link));
    }

    /// Who knows its neighbours.
    pub(crate) fn neighbours(&self) -> Arc<dyn Neighbours> {
        Arc::clone(&self.seat) as Arc<dyn Neighbours>
    }

    /// What has passed between it and the others until now.
    pub(crate) fn usage(&self) -> NeighbourUsage {
        self.switch.as_ref().map(Switch::usage).unwrap_or_default()
    }

    /// Joins what comes by `cable` with the others; the ports `closed` are not for neighbours.
    pub(crate) fn connect(&mut self, cable: OwnedFd, closed: BTreeSet<u16>) -> io::Result<()> {
        self.switch = Some(Switch::start(&self.seat, cable, closed)?);
        Ok(())
    }
}

impl Neighbours for Seat {
    fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let name = name.as_str();
        let name = match name.split_once('.') {
            None => name,
            Some((name, network)) if network == self.network().as_str() => name,
            Some(_) => return None,
        };
        self.find(name)
    }

    fn reach(&self, address: SocketAddrV4) -> Reaching<'_> {
        Box::pin(async move {
            let link = self.link.get().ok_or(io::ErrorKind::NotConnected)?;
            let channel = link.connect(To::Address(address.into())).await;
            let channel = channel.map_err(io::Error::other)?;
            Ok(Box::new(channel) as Box<dyn Duplex>)
        })
    }
}
