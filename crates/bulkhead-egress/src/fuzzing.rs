//! The parsers of hostile bytes, for fuzzers and generated tests. Nothing else uses this.

use crate::{destination::Destination, hello, http, wire::Wire};

/// Reads a TLS hello.
pub fn hello(bytes: &[u8]) -> bool {
    hello::read(bytes).is_ok_and(|it| it.is_some())
}

/// Reads the head of a request; returns what it was taken for.
pub fn head(bytes: &[u8]) -> Option<String> {
    http::head::parse(bytes)
        .ok()
        .map(|it| format!("{} {} {:?}", it.method, it.target, it.framing))
}

/// Reads a whole request, head and body, as it would be sent on; `None` if it is refused.
pub fn request(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(64 << 10);
        let sending = async {
            let (mut far_read, mut far_write) = tokio::io::split(far);
            drop(tokio::io::AsyncWriteExt::write_all(&mut far_write, bytes).await);
            drop(tokio::io::AsyncWriteExt::shutdown(&mut far_write).await);
            let mut rest = Vec::new();
            drop(tokio::io::AsyncReadExt::read_to_end(&mut far_read, &mut rest).await);
        };
        let reading = http::read_whole(Wire::other(near));
        tokio::join!(sending, reading).1
    })
}

/// Reads what a SOCKS client says after its greeting was accepted.
pub fn socks(bytes: &[u8]) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    runtime.block_on(async {
        let mut wire = Wire::other(std::io::Cursor::new(Vec::new()));
        wire.ahead.extend_from_slice(bytes);
        crate::socks5::read_wanted(&mut wire).await
    })
}

/// Reads `host:port`.
pub fn authority(text: &str) -> Option<String> {
    Destination::from_authority(text, None).map(|it| it.to_string())
}

/// Reads the size of a chunk.
pub fn chunk_size(line: &[u8]) -> Option<u64> {
    http::body::chunk_size(line).ok()
}
