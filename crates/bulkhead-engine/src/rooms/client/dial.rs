//! How a client reaches a shim.

use std::{
    fmt::{self, Debug, Formatter},
    io,
    path::PathBuf,
};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::rooms::line;

/// What comes from a shim.
pub(super) type Inward = Box<dyn AsyncRead + Send + Unpin>;
/// What goes to it.
pub(super) type Outward = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection to a shim.
pub struct Duplex {
    pub(super) from: Inward,
    pub(super) to: Outward,
}

/// A way to a shim.
#[async_trait::async_trait]
pub trait Dial: Debug + Send + Sync {
    /// A new connection to it. A connection serves one request, and another one if it was handed out.
    async fn dial(&self) -> io::Result<Duplex>;
}

impl Duplex {
    /// Of two halves.
    pub fn new(
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { from: Box::new(from), to: Box::new(to) }
    }

    /// The halves again, for whoever passes bytes on and understands none.
    pub fn halves(
        self,
    ) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        (self.from, self.to)
    }
}

impl Debug for Duplex {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("Duplex")
    }
}

/// A shim on this host.
#[derive(Debug)]
pub(super) struct Socket(pub(super) PathBuf);

#[async_trait::async_trait]
impl Dial for Socket {
    async fn dial(&self) -> io::Result<Duplex> {
        let (from, to) = line::reach(&self.0)?;
        Ok(Duplex::new(from, to))
    }
}
