//! The first thing that a TLS client says.

use std::io;

use bulkhead_spec::HostName;
use rustls::server::Acceptor;

use crate::wire::Wire;

/// The most that a hello may take; those with many keys come to about four.
const LONGEST: usize = 32 << 10;

/// What a TLS client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The name that it asks for.
    pub(crate) name: Option<HostName>,
    /// The protocols that it would speak.
    pub(crate) protocols: Vec<Vec<u8>>,
}

/// What somebody said first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A TLS client.
    Hello(Hello),
    /// Something else.
    Other,
}

/// Reads the first thing that is said, without taking it away.
pub(crate) async fn listen(wire: &mut Wire) -> io::Result<First> {
    loop {
        if let Some(first) = read(&wire.ahead)? {
            return Ok(first);
        }
        wire.look_further(LONGEST).await?;
    }
}

/// What `bytes` begin with; `None` if that cannot be told yet.
pub(crate) fn read(bytes: &[u8]) -> io::Result<Option<First>> {
    match bytes {
        [] => return Ok(None),
        // A record of the handshake, of any version.
        [0x16, 3, ..] | [0x16] => {}
        [..] => return Ok(Some(First::Other)),
    }
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        acceptor.read_tls(&mut rest)?;
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let name = hello.server_name().map(str::parse).transpose();
                let name = name.map_err(|_| io::ErrorKind::InvalidData)?;
                let protocols = hello.alpn().into_iter().flatten().map(<[u8]>::to_vec);
                return Ok(Some(First::Hello(Hello { name, protocols: protocols.collect() })));
            }
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(None)
}
