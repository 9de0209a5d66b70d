use bulkhead_spec::{escape, escape_bytes};
use proptest::{prelude::*, string::string_regex};

/// By the properties that Unicode gives its characters, not by a list of ours.
const HOSTILE: &str =
    r"[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u{fff9}-\u{fffb}]";
const PLAIN: &str = r"[\p{L}\p{N}\p{P}\p{S}\p{Zs}&&[^\p{Default_Ignorable_Code_Point}]]";

#[test]
fn what_would_work_on_a_terminal_is_spelled_out() {
    let cases = [
        ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
        ("\u{1b}]52;c;aGk=\u{1b}\\", r"\u{1b}]52;c;aGk=\u{1b}\"),
        ("\u{9b}2J", r"\u{9b}2J"),
        ("a\r\nb\tc\u{8}\u{7f}\0", r"a\u{d}\u{a}b\u{9}c\u{8}\u{7f}\u{0}"),
        ("exe.\u{202e}txt", r"exe.\u{202e}txt"),
        ("\u{2066}a\u{2069}\u{061c}\u{200f}", r"\u{2066}a\u{2069}\u{61c}\u{200f}"),
        ("pay\u{200b}pal\u{200d}\u{feff}\u{ad}", r"pay\u{200b}pal\u{200d}\u{feff}\u{ad}"),
        ("a\u{2028}b\u{2029}", r"a\u{2028}b\u{2029}"),
        ("tag\u{e0041}\u{e0101}\u{fe0f}", r"tag\u{e0041}\u{e0101}\u{fe0f}"),
        ("\u{3164}\u{115f}", r"\u{3164}\u{115f}"),
    ];
    for (text, escaped) in cases {
        assert_eq!(escape(text), escaped);
    }
}

#[test]
fn bytes_that_are_no_text_are_spelled_out() {
    let cases: [(&[u8], &str); 5] = [
        (b"plain", "plain"),
        (b"", ""),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\xfe/x\x1b", r"\xff\xfe/x\u{1b}"),
        (b"cut \xe2\x82", r"cut \xe2\x82"),
    ];
    for (bytes, escaped) in cases {
        assert_eq!(escape_bytes(bytes), escaped);
    }
}

fn text_of(classes: &[&str]) -> impl Strategy<Value = String> {
    string_regex(&format!("({}){{0,40}}", classes.join("|"))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_hostile_character_becomes_plain_ascii(it in HOSTILE) {
        let escaped = escape(&it);
        prop_assert!(escaped.starts_with(r"\u{"), "{:?}", it);
        prop_assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic()), "{:?}", escaped);
    }

    #[test]
    fn plain_text_stays_as_it_is(text in text_of(&[PLAIN])) {
        prop_assert_eq!(escape(&text), &*text);
        prop_assert_eq!(escape_bytes(text.as_bytes()), text);
    }

    #[test]
    fn what_is_escaped_needs_no_escaping(text in text_of(&[HOSTILE, PLAIN])) {
        let escaped = escape(&text);
        prop_assert!(!escaped.contains(char::is_control));
        prop_assert_eq!(escape(&escaped), escaped);
    }

    #[test]
    fn no_bytes_slip_through(bytes: Vec<u8>) {
        let escaped = escape_bytes(&bytes);
        prop_assert!(!escaped.contains(char::is_control));
        prop_assert_eq!(escape(&escaped), escaped);
    }
}
