//! Requests to the kernel about networks.
//!
//! They are made by hand, in a buffer of fixed size: this runs in a child that shares its parent's
//! memory, see [`crate`].

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    },
};

/// Enough for the longest request that is made here.
const SPACE: usize = 512;

/// Header of a message, as `struct nlmsghdr`.
const HEADER: usize = 16;

/// What a message is about.
#[derive(Clone, Copy)]
pub(crate) enum About {
    /// Something that is made, or replaced if it is there.
    Any,
    /// Something that is made and may not be there.
    New,
    /// Something that is there and is changed.
    Known,
}

/// Messages that are sent together and obeyed in their order.
pub(crate) struct Request {
    bytes: [u8; SPACE],
    length: usize,
}

/// Where something began whose length is not known yet.
#[derive(Clone, Copy)]
pub(crate) struct Begun(usize);

impl Request {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; SPACE], length: 0 }
    }

    /// Begins a message; what the kernel says about it bears `number`.
    pub(crate) fn message(
        &mut self,
        kind: u16,
        about: About,
        number: u32,
    ) -> Result<Begun, Errno> {
        let begun = Begun(self.length);
        let flags = libc::NLM_F_REQUEST
            | match about {
                About::Any => libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
                About::New => libc::NLM_F_CREATE | libc::NLM_F_EXCL,
                About::Known => 0,
            };
        self.put(&0_u32.to_ne_bytes())?;
        self.put(&kind.to_ne_bytes())?;
        self.put(&(flags.unsigned_abs() as u16).to_ne_bytes())?;
        self.put(&number.to_ne_bytes())?;
        self.put(&0_u32.to_ne_bytes())?;
        Ok(begun)
    }

    /// Ends a message.
    pub(crate) fn end(&mut self, Begun(at): Begun) -> Result<(), Errno> {
        let length = (self.length - at) as u32;
        self.write(at, &length.to_ne_bytes())
    }

    /// Begins an attribute that has others in it.
    pub(crate) fn nest(&mut self, kind: u16) -> Result<Begun, Errno> {
        let begun = Begun(self.length);
        self.put(&0_u16.to_ne_bytes())?;
        self.put(&kind.to_ne_bytes())?;
        Ok(begun)
    }

    /// Ends such an attribute.
    pub(crate) fn unnest(&mut self, Begun(at): Begun) -> Result<(), Errno> {
        let length = (self.length - at) as u16;
        self.write(at, &length.to_ne_bytes())?;
        while !self.length.is_multiple_of(4) {
            self.put(&[0])?;
        }
        Ok(())
    }

    /// Adds an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> Result<(), Errno> {
        let begun = self.nest(kind)?;
        self.put(value)?;
        self.unnest(begun)
    }

    /// Adds bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.write(self.length, bytes)?;
        self.length += bytes.len();
        Ok(())
    }

    fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        let place = self.bytes.get_mut(at..at + bytes.len()).ok_or(Errno::NOBUFS)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Has the kernel do it all. What it refuses of the message `dispensable` is not missed.
    pub(crate) fn send(&self, dispensable: Option<u32>) -> Result<(), Errno> {
        // No protocol is protocol 0, which is `NETLINK_ROUTE`.
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let all = self.bytes.get(..self.length).ok_or(Errno::NOBUFS)?;
        send(&socket, all, SendFlags::empty())?;
        // The kernel has done it when `send` returns, and says only what failed.
        let mut answer = [0_u8; 1024];
        loop {
            match recv(&socket, &mut answer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    failure(answer.get(..length).unwrap_or_default(), dispensable)?;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// What the kernel refused, if it is missed.
fn failure(answer: &[u8], dispensable: Option<u32>) -> Result<(), Errno> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (Some(sequence), Some(error)) = (number(8), number(HEADER)) else {
        return Err(Errno::PROTO);
    };
    let errno = error.wrapping_neg().cast_signed();
    if errno == 0 || Some(sequence) == dispensable {
        return Ok(());
    }
    Err(Errno::from_raw_os_error(errno))
}
