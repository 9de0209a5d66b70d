use std::time::Duration;

use bulkhead_spec::Span;
use proptest::prelude::*;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn span(millis: u64) -> Span {
    Span(Duration::from_millis(millis))
}

#[test]
fn numbers_with_units_are_a_length_of_time() {
    let cases = [
        ("0", 0),
        ("0s", 0),
        ("90", 90 * SECOND),
        ("90s", 90 * SECOND),
        ("5m", 5 * MINUTE),
        ("1h30m", HOUR + 30 * MINUTE),
        ("250ms", 250),
        ("1s500ms", 1500),
        ("1500ms", 1500),
        ("1d1ms", DAY + 1),
        ("36500d", 36_500 * DAY),
        ("  5m  ", 5 * MINUTE),
        ("005m", 5 * MINUTE),
    ];
    for (text, millis) in cases {
        assert_eq!(text.parse(), Ok(span(millis)), "{text:?}");
    }
}

#[test]
fn anything_else_is_not() {
    let cases = [
        "",
        " ",
        "s",
        "ms",
        "-1",
        "-1s",
        "+5",
        "+5s",
        "1.5s",
        "1e3",
        "0x10",
        "1,5s",
        "5 m",
        "1h 30m",
        "5M",
        "5min",
        "5w",
        "5us",
        "5m30",
        "30m1h",
        "5s5s",
        "1ms1s",
        "１ｍ",
        "٣s",
        "5s\0",
        "36501d",
        "36500d1ms",
        "18446744073709551615",
        "18446744073709551616s",
        "18446744073709551615d18446744073709551615h",
    ];
    for text in cases {
        assert!(text.parse::<Span>().is_err(), "{text:?}");
    }
}

#[test]
fn the_complaint_shows_what_to_write() {
    insta::assert_snapshot!(
        "1.5s\u{202e}".parse::<Span>().unwrap_err(),
        @r"`1.5s\u{202e}` is not a length of time; write one such as `90s`, `5m` or `1h30m`"
    );
}

#[test]
fn a_length_prints_as_people_write_it() {
    let cases = [
        (0, "0s"),
        (1, "1ms"),
        (250, "250ms"),
        (1500, "1s500ms"),
        (90 * SECOND, "1m30s"),
        (HOUR + 30 * MINUTE, "1h30m"),
        (DAY + 1, "1d1ms"),
        (36_500 * DAY, "36500d"),
    ];
    for (millis, text) in cases {
        assert_eq!(span(millis).to_string(), text);
    }
}

#[test]
fn a_file_says_a_length_as_text_or_in_seconds() {
    let read = |text: &str| serde_json::from_str::<Span>(text).ok();
    assert_eq!(read("90"), Some(span(90 * SECOND)));
    assert_eq!(read("1.5"), Some(span(1500)));
    assert_eq!(read("\"1h30m\""), Some(span(HOUR + 30 * MINUTE)));
    for wrong in ["-1", "-1.5", "1e300", "3153600001", "\"\"", "true", "null"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_length_survives_printing_and_serialisation(millis in 0..=36_500 * DAY) {
        let span = span(millis);
        prop_assert_eq!(span.to_string().parse(), Ok(span));
        let json = serde_json::to_string(&span).unwrap();
        let Span(read) = serde_json::from_str::<Span>(&json).unwrap();
        // Seconds as a float are exact to well below the millisecond that we print.
        prop_assert!(read.abs_diff(span.0) < Duration::from_micros(1), "{:?}", read);
    }

    #[test]
    fn short_lengths_survive_too(millis in 0..3 * MINUTE) {
        prop_assert_eq!(span(millis).to_string().parse(), Ok(span(millis)));
    }

    #[test]
    fn no_text_upsets_the_parser(text in "[0-9dhms.+ -]{0,24}") {
        if let Ok(span) = text.parse::<Span>() {
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
