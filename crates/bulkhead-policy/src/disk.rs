//! What a sandbox's private disk begins with, where its changes go, and what it is called.
//!
//! None of this is asked for in a `Spec`: layers and places are the engine's own, from its own
//! records, so that nobody can name a directory of the host as a layer.

use bulkhead_spec::HostPath;
use serde::Serialize;

use crate::Plan;

/// The private disk of a sandbox: home, `/tmp` and every private layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// What it begins with: directories that never change, the topmost first.
    pub layers: Vec<HostPath>,
    /// Where its changes are kept beyond its end; in memory if nowhere.
    pub kept: Option<Kept>,
}

/// A place where changes stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// A directory of the sandbox alone.
    pub dir: HostPath,
    /// Whether a sandbox has been there before.
    pub state: KeptState,
}

/// Whether a place has been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptState {
    /// It is empty.
    New,
    /// It has what a sandbox left.
    Used,
}

impl Disk {
    /// Whether it begins with nothing and ends with its sandbox.
    pub fn is_plain(&self) -> bool {
        self.layers.is_empty() && self.kept.is_none()
    }

    /// Whether a sandbox has been there before, so that first things are there already.
    pub fn is_used(&self) -> bool {
        let used = |it: &Kept| it.state == KeptState::Used;
        !self.layers.is_empty() || self.kept.as_ref().is_some_and(used)
    }
}

/// What tells one machine from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nameplate {
    /// What the machine is called.
    pub host: String,
    /// 32 digits, the same for as long as the machine exists.
    pub machine: String,
    /// A UUID, another one after each start.
    pub boot: String,
}

impl Nameplate {
    /// A nameplate from random bytes that nobody else has.
    pub fn of(random: [u8; 32]) -> Self {
        let (machine, boot) = random.split_at(16);
        let machine = uuid(machine).replace('-', "");
        let host = format!("bulkhead-{}", machine.get(..8).unwrap_or_default());
        Self { host, machine, boot: uuid(boot) }
    }
}

/// Sixteen bytes as a UUID of version 4.
fn uuid(bytes: &[u8]) -> String {
    let part = |(at, byte): (usize, &u8)| {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        let byte = match at {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        format!("{dash}{byte:02x}")
    };
    bytes.iter().enumerate().map(part).collect()
}

impl Plan {
    /// The plan of a sandbox on this disk.
    #[must_use]
    pub fn on(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// The plan of a sandbox that is told from others by this nameplate.
    #[must_use]
    pub fn named(mut self, nameplate: Nameplate) -> Self {
        self.nameplate = Some(nameplate);
        self
    }

    /// What its private disk begins with, and where its changes go.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What tells it from others, if it is to be told.
    pub fn nameplate(&self) -> Option<&Nameplate> {
        self.nameplate.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::Nameplate;

    #[test]
    fn a_nameplate_reads_as_those_of_machines_do() {
        let bytes = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let plate = Nameplate::of(bytes);
        assert_eq!(plate.host, "bulkhead-00010203");
        assert_eq!(plate.machine, "000102030405460788090a0b0c0d0e0f");
        assert_eq!(plate.boot, "10111213-1415-4617-9819-1a1b1c1d1e1f");
    }
}
