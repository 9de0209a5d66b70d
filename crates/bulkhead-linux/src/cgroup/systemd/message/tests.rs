use super::*;

#[test]
fn the_greeting_byte_for_byte() {
    let expected: &[&[u8]] = &[
        b"l\x01\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x6d\x00\x00\x00",
        b"\x01\x01o\x00\x15\x00\x00\x00/org/freedesktop/DBus\x00\x00\x00",
        b"\x02\x01s\x00\x14\x00\x00\x00org.freedesktop.DBus\x00\x00\x00\x00",
        b"\x03\x01s\x00\x05\x00\x00\x00Hello\x00\x00\x00",
        b"\x06\x01s\x00\x14\x00\x00\x00org.freedesktop.DBus\x00\x00\x00\x00",
    ];
    assert_eq!(hello(1), expected.concat());
}

#[test]
fn the_request_for_a_scope_byte_for_byte() {
    let expected: &[&[u8]] = &[
        b"l\x01\x00\x01\xc8\x00\x00\x00\x02\x00\x00\x00\xb6\x00\x00\x00",
        b"\x01\x01o\x00\x19\x00\x00\x00/org/freedesktop/systemd1\x00\x00\x00\x00\x00\x00\x00",
        b"\x02\x01s\x00\x20\x00\x00\x00org.freedesktop.systemd1.Manager\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x03\x01s\x00\x12\x00\x00\x00StartTransientUnit\x00\x00\x00\x00\x00\x00",
        b"\x06\x01s\x00\x18\x00\x00\x00org.freedesktop.systemd1\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x08\x01g\x00\x10ssa(sv)a(sa(sv))\x00\x00\x00",
        // The body starts anew at a multiple of 8.
        b"\x07\x00\x00\x00a.scope\x00\x04\x00\x00\x00fail\x00\x00\x00\x00",
        b"\xa0\x00\x00\x00\x00\x00\x00\x00",
        b"\x0b\x00\x00\x00Description\x00\x01s\x00\x00\x25\x00\x00\x00Bulkhead: sandboxes of one supervisor\x00\x00\x00",
        b"\x08\x00\x00\x00Delegate\x00\x01b\x00\x01\x00\x00\x00\x00\x00\x00\x00",
        b"\x0b\x00\x00\x00CollectMode\x00\x01s\x00\x00\x12\x00\x00\x00inactive-or-failed\x00\x00\x00\x00\x00\x00",
        b"\x04\x00\x00\x00PIDs\x00\x02au\x00\x00\x00\x00\x04\x00\x00\x00\x39\x30\x00\x00",
        // An array without elements still has the gap before the first one.
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
    ];
    assert_eq!(start_scope(2, "a.scope", 12345), expected.concat());
}

/// An answer with these header fields and no body.
fn answer(kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut message = vec![b'l', kind, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0];
    message.extend(u32::try_from(fields.len()).unwrap().to_le_bytes());
    message.extend(fields);
    message.resize(message.len().next_multiple_of(8), 0);
    message
}

fn fixed(message: &[u8]) -> &[u8; FIXED] {
    message.first_chunk().unwrap()
}

#[test]
fn answers_are_told_from_the_rest() {
    let done = answer(2, b"\x05\x01u\x00\x07\x00\x00\x00");
    let refused = answer(
        3,
        b"\x04\x01s\x00\x03\x00\x00\x00a.b\x00\x00\x00\x00\x00\x05\x01u\x00\x02\x00\x00\x00",
    );
    let signal = answer(4, b"\x08\x01g\x00\x01s\x00");
    assert_eq!(decode(&done).unwrap(), Answer::Done(7));
    assert_eq!(decode(&refused).unwrap(), Answer::Refused(2, "a.b".to_owned()));
    assert_eq!(decode(&signal).unwrap(), Answer::Other);
    for message in [done, refused, signal] {
        assert_eq!(length(fixed(&message)).unwrap(), message.len());
    }
}

#[test]
fn no_cut_or_twisted_answer_is_read_or_makes_us_panic() {
    let whole = answer(
        3,
        b"\x04\x01s\x00\x03\x00\x00\x00a.b\x00\x00\x00\x00\x00\x05\x01u\x00\x02\x00\x00\x00",
    );
    for cut in 0..whole.len() {
        assert_eq!(decode(&whole[..cut]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut twisted = whole.clone();
            twisted[at] = value;
            // Either is fine, as long as it comes back.
            assert!(decode(&twisted).is_ok() || decode(&twisted).is_err());
        }
    }
    let big_endian = b"B\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00";
    assert_eq!(length(big_endian).unwrap_err().kind(), io::ErrorKind::InvalidData);
}
