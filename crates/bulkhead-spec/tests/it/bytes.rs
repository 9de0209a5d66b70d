use bulkhead_spec::Bytes;
use proptest::prelude::*;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;

#[test]
fn a_number_and_a_unit_is_a_size() {
    let cases = [
        ("0", 0),
        ("7", 7),
        ("512b", 512),
        ("1 byte", 1),
        ("512 bytes", 512),
        ("1k", K),
        ("1K", K),
        ("1kb", K),
        ("1KiB", K),
        ("512m", 512 * M),
        ("1.5g", G + G / 2),
        ("1.5 GiB", G + G / 2),
        ("0.000001m", 1),
        ("  2g  ", 2 * G),
        ("2\tg", 2 * G),
        ("007m", 7 * M),
        ("16777215t", 16_777_215 * T),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, bytes) in cases {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text:?}");
    }
}

#[test]
fn anything_else_is_not() {
    let cases = [
        "",
        " ",
        "m",
        ".",
        ".5g",
        "1.g",
        "1.5",
        "1.5b",
        "1.5.5g",
        "1.0000001g",
        "-1",
        "+1",
        "1e3",
        "0x10",
        "1_000",
        "1,5g",
        "1 0m",
        "1mm",
        "1bb",
        "1bib",
        "1p",
        "1m1k",
        "１ｍ",
        "1ｍ",
        "٣m",
        "∞",
        "1m\0",
        "16777216t",
        "18446744073709551616",
        "99999999999999999999999g",
        "18446744073709551615.5k",
    ];
    for text in cases {
        assert!(text.parse::<Bytes>().is_err(), "{text:?}");
    }
}

#[test]
fn the_complaint_shows_what_was_written_and_what_to_write() {
    let error = "1\u{1b}[2Jx".parse::<Bytes>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`1\\u{1b}[2Jx` is not a size; write a number and a unit, such as `512m` or `2g`"
    );
}

#[test]
fn a_size_prints_in_its_largest_unit() {
    let cases = [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (K, "1 KiB"),
        (K + K / 2, "1.5 KiB"),
        (M - 1, "1023.9 KiB"),
        (512 * M, "512 MiB"),
        (G + G / 10, "1.0 GiB"),
        (4 * G, "4 GiB"),
        (T, "1024 GiB"),
        (u64::MAX, "17179869183.9 GiB"),
    ];
    for (bytes, text) in cases {
        assert_eq!(Bytes(bytes).to_string(), text);
    }
}

#[test]
fn a_file_says_a_size_as_text_or_as_a_number_of_bytes() {
    let read = |text: &str| serde_json::from_str::<Bytes>(text).map_err(|it| it.to_string());
    assert_eq!(read("4096"), Ok(Bytes(4096)));
    assert_eq!(read("\"4k\""), Ok(Bytes(4096)));
    for wrong in ["-1", "1.5", "true", "null", "[1]"] {
        assert_eq!(
            read(wrong),
            Err("a size such as `512m`, or a number of bytes".to_owned()),
            "{wrong}"
        );
    }
    insta::assert_snapshot!(
        read("\"4q\"").unwrap_err(),
        @"`4q` is not a size; write a number and a unit, such as `512m` or `2g`"
    );
}

proptest! {
    #[test]
    fn whole_units_survive_printing(
        count in 0_u64..1024,
        scale in prop::sample::select(vec![1, K, M, G, T]),
    ) {
        let bytes = Bytes(count * scale);
        prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
    }

    #[test]
    fn printing_never_makes_a_size_larger(bytes: u64) {
        let Bytes(read) = Bytes(bytes).to_string().parse().unwrap();
        prop_assert!(read <= bytes, "{} was read as {}", bytes, read);
        prop_assert!(bytes - read <= bytes / 10, "{} was read as {}", bytes, read);
    }

    #[test]
    fn a_size_survives_serialisation(bytes: u64) {
        let json = serde_json::to_string(&Bytes(bytes)).unwrap();
        prop_assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap(), Bytes(bytes));
    }

    #[test]
    fn no_text_upsets_the_parser(text: String) {
        if let Err(error) = text.parse::<Bytes>() {
            prop_assert!(error.to_string().contains("is not a size"));
        }
    }
}
