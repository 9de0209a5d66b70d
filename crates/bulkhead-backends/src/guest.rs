//! The host's side of every sandbox that has our guest inside, whatever built it.
//!
//! A backend makes a sandbox whose first process is `bulkhead-guest`, opens a stream to it, and
//! gives that stream to a [`Link`]:
//!
//! - [`Link::over_socket`]: one end of a unix socket pair, the other end being the guest's
//!   descriptor 3. What programs read and write goes by descriptor, past the link.
//! - [`Link::over_stream`]: anything that carries bytes both ways, like the attached input and
//!   output of a container whose entry point is `bulkhead-guest --stdio`. What programs read and
//!   write goes through channels of the link.
//!
//! Then, the same for all:
//!
//! ```text
//! link.raise(walls); link.ready().await?;          the walls stand, or why they do not
//! link.listen(&doors).await?                       -> Listener: who comes to a port inside
//! link.exec(&exec_plan, After::End).await?         -> Program: take_streams, wait, handle
//! link.connect(To::Port(8080)).await?              -> Channel: AsyncRead + AsyncWrite
//! link.files()                                     -> files::Files: stat, list, read, write, …
//! ```
//!
//! Any number of programs, channels and callers use one link at once. A link lives in a task of
//! the runtime in which it was made; when it and every [`Program`] of it are dropped, the stream
//! closes, and the guest ends with all that it started.
//!
//! Invariant: everything that comes out of the stream is hostile. Memory per channel is bounded by
//! its window, channels by what was asked for; whatever breaks a rule ends the link with
//! [`BackendError::Guest`](crate::BackendError::Guest).

mod channel;
mod connect;
mod dispatch;
mod driver;
mod exec;
pub mod files;
mod link;
mod listener;
mod outbox;
mod pipe;
mod program;
mod state;
mod streams;

pub use bulkhead_guest::protocol::{After, Counted, Datagram, Disk, Status, To};

pub use self::{
    channel::{Channel, ChannelReader, ChannelWriter},
    link::{Link, Unready, pair},
    listener::{Connection, Connections, Datagrams, Doors, Listener},
    program::{Ended, Handle, NotStarted, Order, Program, Starting},
};

/// The guest, as the build made it: a static program for this architecture.
pub static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bulkhead-guest"));
