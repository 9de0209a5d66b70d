//! The parsers of hostile bytes, for fuzzers and generated tests. Nothing else uses this.

use std::sync::{Arc, OnceLock};

use crate::{
    Entrances, Gateway, GatewayPlan, destination::Destination, hello, http, meter::Meter,
    report::Report, resolve, usage, wire::Wire,
};

/// The first thing that a TLS client says.
pub fn check_hello(bytes: &[u8]) {
    hello(bytes);
}

/// A request with its body: whatever is read has one end.
///
/// # Panics
/// If it has not.
pub fn check_request(bytes: &[u8]) {
    head(bytes);
    if let Some((_, body)) = request(bytes) {
        assert!(body.len() <= bytes.len(), "a body longer than all that was said");
    }
    chunk_size(bytes);
}

/// What a SOCKS client wants: whatever is read reads back as itself.
///
/// # Panics
/// If it does not.
pub fn check_socks(bytes: &[u8]) {
    if let Some(read) = socks(bytes) {
        assert_eq!(authority(&read), Some(read));
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(read) = authority(&text) {
        assert_eq!(authority(&read), Some(read));
    }
}

/// A question for a name: whatever is answered is an answer of reasonable length.
///
/// # Panics
/// If it is not.
pub fn check_question(bytes: &[u8]) {
    static GATEWAY: OnceLock<Option<Gateway>> = OnceLock::new();
    let gateway = GATEWAY.get_or_init(|| {
        let allow = bulkhead_spec::allowing("**.good.com", "fuzz").ok()?;
        let rules = bulkhead_policy::EgressRules::new(allow, Vec::new());
        let plan = GatewayPlan { rules, ..GatewayPlan::default() };
        Gateway::start(plan, Entrances::default(), |_| {}).ok()
    });
    let answer = gateway.as_ref().and_then(|it| it.answer(bytes));
    assert!(answer.is_none_or(|it| it.len() <= 512 + bytes.len()), "an answer that amplifies");
}

/// What a name server answers.
pub fn check_answer(bytes: &[u8]) {
    resolve::read_answer(bytes);
}

/// What a model says that it used, at once and as a stream, in pieces.
pub fn check_usage(bytes: &[u8]) {
    let report = Arc::new(Report::new(|_| {}));
    let budgets = "api.anthropic.com=1000tokens,$5".parse().into_iter().collect();
    let meter = Meter::new(bulkhead_spec::EgressLimits::default(), budgets, &report);
    let Some(to) = Destination::from_authority("api.anthropic.com:443", None) else { return };
    for kind in ["application/json", "text/event-stream"] {
        let Ok((_, toll)) = meter.enter(&to) else { return };
        let mut headers = ::http::HeaderMap::new();
        let kind = ::http::HeaderValue::from_static(kind);
        headers.insert(::http::header::CONTENT_TYPE, kind);
        let mut reader = usage::Reader::new(&headers, Arc::new(toll));
        for piece in bytes.chunks(7) {
            reader.read(piece);
        }
    }
}

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

#[cfg(test)]
mod tests {
    #[test]
    fn what_fuzzers_begin_with_is_read() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (name, check) in [
            ("hello", super::check_hello as fn(&[u8])),
            ("request", super::check_request as fn(&[u8])),
            ("socks", super::check_socks as fn(&[u8])),
            ("question", super::check_question as fn(&[u8])),
            ("answer", super::check_answer as fn(&[u8])),
            ("usage", super::check_usage as fn(&[u8])),
        ] {
            let mut count = 0;
            for seed in seeds.join(name).read_dir().unwrap() {
                check(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert_ne!(count, 0, "{name}");
        }
    }
}
