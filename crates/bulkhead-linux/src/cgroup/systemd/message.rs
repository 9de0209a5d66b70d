//! The few D-Bus messages that we need, as bytes. Nothing here reads or writes a socket.
//!
//! Layout by the D-Bus specification: little endian, every value aligned to its size counted from
//! the start of the message, structs to 8.

use std::io;

/// No answer to us is larger; the specification would allow 128 MiB.
const LARGEST: usize = 64 * 1024;

/// The part of every message that has a fixed size.
pub(super) const FIXED: usize = 16;

/// Values one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Values(Vec<u8>);

impl Values {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, value: &str) {
        self.number(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend(value.as_bytes());
        self.byte(0);
    }

    fn signature(&mut self, value: &str) {
        self.byte(u8::try_from(value.len()).unwrap_or(u8::MAX));
        self.0.extend(value.as_bytes());
        self.byte(0);
    }

    /// An array whose elements are aligned to `to`: its size counts neither itself nor the gap
    /// before the first element.
    fn array(&mut self, to: usize, fill: impl FnOnce(&mut Values)) {
        self.number(0);
        let size_at = self.0.len() - 4;
        self.align(to);
        let start = self.0.len();
        fill(self);
        let size = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(size_at..size_at + 4) {
            place.copy_from_slice(&size.to_le_bytes());
        }
    }

    /// One `(sv)`: a property of a unit.
    fn property(&mut self, name: &str, signature: &str, value: impl FnOnce(&mut Values)) {
        self.align(8);
        self.text(name);
        self.signature(signature);
        value(self);
    }
}

/// A method call.
struct Call<'a> {
    serial: u32,
    destination: &'a str,
    path: &'a str,
    interface: &'a str,
    member: &'a str,
    signature: &'a str,
    body: Values,
}

impl Call<'_> {
    fn encode(&self) -> Vec<u8> {
        let mut message = Values::default();
        // Little endian, method call, no flags, protocol version 1.
        message.0.extend([b'l', 1, 0, 1]);
        message.number(u32::try_from(self.body.0.len()).unwrap_or(u32::MAX));
        message.number(self.serial);
        message.array(8, |fields| {
            let mut field = |code, kind: &str, value: &str| {
                fields.align(8);
                fields.byte(code);
                fields.signature(kind);
                if kind == "g" { fields.signature(value) } else { fields.text(value) }
            };
            field(1, "o", self.path);
            field(2, "s", self.interface);
            field(3, "s", self.member);
            field(6, "s", self.destination);
            if !self.signature.is_empty() {
                field(8, "g", self.signature);
            }
        });
        message.align(8);
        message.0.extend(&self.body.0);
        message.0
    }
}

/// The greeting that a bus wants first.
pub(super) fn hello(serial: u32) -> Vec<u8> {
    let call = Call {
        serial,
        destination: "org.freedesktop.DBus",
        path: "/org/freedesktop/DBus",
        interface: "org.freedesktop.DBus",
        member: "Hello",
        signature: "",
        body: Values::default(),
    };
    call.encode()
}

/// The request for a scope of that name around the process, with its cgroup handed over to us.
pub(super) fn start_scope(serial: u32, name: &str, process: u32) -> Vec<u8> {
    let mut body = Values::default();
    body.text(name);
    // Fails if there is such a unit, rather than touch somebody else's.
    body.text("fail");
    body.array(8, |properties| {
        properties.property("Description", "s", |it| {
            it.text("Bulkhead: sandboxes of one supervisor");
        });
        properties.property("Delegate", "b", |it| it.number(1));
        // Forgotten as soon as it is empty, also after a failure.
        properties.property("CollectMode", "s", |it| it.text("inactive-or-failed"));
        properties.property("PIDs", "au", |it| it.array(4, |pids| pids.number(process)));
    });
    body.array(8, |_no_auxiliary_units| {});
    let call = Call {
        serial,
        destination: "org.freedesktop.systemd1",
        path: "/org/freedesktop/systemd1",
        interface: "org.freedesktop.systemd1.Manager",
        member: "StartTransientUnit",
        signature: "ssa(sv)a(sa(sv))",
        body,
    };
    call.encode()
}

/// What a message from the bus means to us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The call with this serial has been done.
    Done(u32),
    /// The call with this serial was refused: by the name of the error.
    Refused(u32, String),
    /// A signal or a call, which is not for us.
    Other,
}

/// How long the whole message is whose fixed part this is.
pub(super) fn length(fixed: &[u8; FIXED]) -> io::Result<usize> {
    let mut reader = Reader { bytes: fixed, at: 4 };
    let body = reader.number()? as usize;
    reader.number()?;
    let fields = reader.number()? as usize;
    let length = FIXED.saturating_add(fields).next_multiple_of(8).saturating_add(body);
    match fixed.first() {
        Some(b'l') if length <= LARGEST => Ok(length),
        _ => Err(malformed()),
    }
}

/// Reads a whole message.
pub(super) fn decode(message: &[u8]) -> io::Result<Answer> {
    let mut reader = Reader { bytes: message, at: 1 };
    let kind = reader.byte()?;
    reader.at = 12;
    let end = FIXED + reader.number()? as usize;
    let (mut serial, mut error) = (None, String::new());
    while reader.at < end {
        reader.align(8);
        let code = reader.byte()?;
        let value = reader.variant()?;
        match (code, value) {
            (4, Value::Text(name)) => error = name,
            (5, Value::Number(number)) => serial = Some(number),
            (_, Value::Text(_) | Value::Number(_)) => {}
        }
    }
    match (kind, serial) {
        (2, Some(serial)) => Ok(Answer::Done(serial)),
        (3, Some(serial)) => Ok(Answer::Refused(serial, error)),
        (2 | 3, None) => Err(malformed()),
        _ => Ok(Answer::Other),
    }
}

enum Value {
    Text(String),
    Number(u32),
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        let end = self.at.checked_add(length).ok_or_else(malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.take(1)?.first().copied().ok_or_else(malformed)
    }

    fn number(&mut self) -> io::Result<u32> {
        self.align(4);
        let bytes = self.take(4)?.try_into().map_err(|_| malformed())?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn text(&mut self, length: usize) -> io::Result<String> {
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.take(1)?;
        Ok(text)
    }

    /// A value of one of the types that header fields have.
    fn variant(&mut self) -> io::Result<Value> {
        let length = usize::from(self.byte()?);
        match self.text(length)?.as_str() {
            "s" | "o" => {
                let length = self.number()? as usize;
                self.text(length).map(Value::Text)
            }
            "g" => {
                let length = usize::from(self.byte()?);
                self.text(length).map(Value::Text)
            }
            "u" => self.number().map(Value::Number),
            _ => Err(malformed()),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the session bus sent a message we cannot read")
}

#[cfg(test)]
mod tests;
