//! Hostile bytes by the thousand: nothing panics, and nothing is read in two ways.

use bulkhead_egress::fuzzing;
use proptest::prelude::*;

use crate::stage::{Stage, World};

/// Something that looks like HTTP, and is often broken.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        Just("GET / HTTP/1.1"),
        Just("POST /x HTTP/1.1"),
        Just("GET  / HTTP/1.1"),
        Just("GET / HTTP/1.0"),
        Just("GET / HTTP/2.0"),
        Just("POST http://a.com/ HTTP/1.1"),
    ];
    let header = prop_oneof![
        Just("Host: a.com"),
        Just("Host: b.com"),
        Just("Content-Length: 5"),
        Just("Content-Length: 05"),
        Just("Content-Length: 5, 5"),
        Just("Content-Length: +5"),
        Just("Transfer-Encoding: chunked"),
        Just("Transfer-Encoding : chunked"),
        Just("Transfer-Encoding: xchunked"),
        Just("Transfer_Encoding: chunked"),
        Just("Connection: content-length"),
        Just(" folded"),
        Just("X: y"),
        Just("X: \x0b"),
    ];
    let end = prop_oneof![5 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r")];
    let body = prop_oneof![
        Just("hello"),
        Just("5\r\nhello\r\n0\r\n\r\n"),
        Just("5;x\r\nhello\r\n0\r\n\r\n"),
        Just("0x5\r\nhello\r\n0\r\n\r\n"),
        Just("5\nhello\n0\n\n"),
        Just(""),
        Just("0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"),
    ];
    let lines = prop::collection::vec((header, end.clone()), 0..5);
    (line, end.clone(), lines, end, body).prop_map(|(line, first, headers, last, body)| {
        let mut text = format!("{line}{first}");
        for (header, end) in headers {
            text += header;
            text += end;
        }
        (text + last + body).into_bytes()
    })
}

proptest! {
    #[test]
    fn a_hello_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzzing::hello(&bytes);
        let mut record = vec![0x16, 3, 1];
        record.extend(bytes);
        fuzzing::hello(&record);
    }

    #[test]
    fn a_head_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::head(&bytes);
    }

    /// Whatever is let through has exactly one way to tell where its body ends.
    #[test]
    fn a_request_that_is_read_can_be_read_in_one_way(bytes in request()) {
        let Some((line, body)) = fuzzing::request(&bytes) else { return Ok(()) };
        let text = String::from_utf8_lossy(&bytes);
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        prop_assert!(!head.replace("\r\n", "").contains(['\r', '\n']), "{}", text);
        let lengths = head.matches("\r\ncontent-length:").count();
        let codings = head.matches("\r\ntransfer-encoding").count();
        prop_assert!(lengths + codings <= 1, "{}", text);
        prop_assert!(!head.contains("transfer_encoding"));
        prop_assert!(body.is_empty() || &body == b"hello" || lengths == 1, "{} {:?}", line, body);
        if codings == 1 {
            prop_assert!(body == b"hello" || body.is_empty());
        }
    }

    #[test]
    fn a_chunk_size_is_hexadecimal_digits(line in "[0-9a-fA-Fx;+ -]{0,20}") {
        if let Some(size) = fuzzing::chunk_size(line.as_bytes()) {
            prop_assert_eq!(u64::from_str_radix(&line, 16).unwrap(), size);
        }
    }

    #[test]
    fn an_authority_reads_as_itself(text in "\\PC{0,60}|[a-z0-9.:@%\\[\\]-]{0,30}") {
        if let Some(read) = fuzzing::authority(&text) {
            prop_assert_eq!(fuzzing::authority(&read), Some(read.clone()));
            prop_assert!(!read.contains(['@', '%', '/']));
        }
    }

    #[test]
    fn a_socks_request_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::socks(&bytes);
        let mut request = vec![5, 1, 0];
        request.extend(bytes);
        if let Some(read) = fuzzing::socks(&request) {
            prop_assert_eq!(fuzzing::authority(&read), Some(read.clone()));
        }
    }

    #[test]
    fn a_question_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let world = std::sync::Arc::new(World::default());
        thread_local! {
            static STAGE: std::cell::OnceCell<Stage> = const { std::cell::OnceCell::new() };
        }
        STAGE.with(|stage| {
            let stage = stage.get_or_init(|| Stage::new(&world, &["good.com"], &[]));
            stage.gateway.answer(&bytes);
            assert!(stage.asked().is_empty());
        });
    }
}
