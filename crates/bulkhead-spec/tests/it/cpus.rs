use bulkhead_spec::Cpus;
use proptest::prelude::*;

#[test]
fn a_decimal_number_is_a_share() {
    let cases = [
        ("1", 1000),
        ("1.5", 1500),
        ("1.", 1000),
        (".5", 500),
        ("0.01", 10),
        ("0.125", 125),
        (" 2 ", 2000),
        ("0002", 2000),
        ("4096", 4_096_000),
        ("4096.000", 4_096_000),
    ];
    for (text, millis) in cases {
        assert_eq!(text.parse::<Cpus>().map(Cpus::millis), Ok(millis), "{text:?}");
    }
}

#[test]
fn anything_else_is_not() {
    let cases = [
        "", " ", ".", "0", "0.0", "0.009", "-1", "+1", "1e3", "0x10", "1,5", "1.5.5", "1.2345",
        "1 5", "4096.001", "9999", "10000", "00001", "１", "٣", "1\0", "NaN", "inf", "all",
        "2cpus",
    ];
    for text in cases {
        assert!(text.parse::<Cpus>().is_err(), "{text:?}");
    }
}

#[test]
fn the_complaint_names_the_bounds() {
    insta::assert_snapshot!(
        "0".parse::<Cpus>().unwrap_err(),
        @"`0` is not a number of CPUs; write one from 0.01 to 4096, such as `1.5`"
    );
    insta::assert_snapshot!(
        Cpus::from_millis(9).unwrap_err(),
        @"`0.009` is not a number of CPUs; write one from 0.01 to 4096, such as `1.5`"
    );
}

#[test]
fn a_file_says_a_share_as_a_number_or_as_text() {
    let read = |text: &str| serde_json::from_str::<Cpus>(text).map(Cpus::millis).ok();
    assert_eq!(read("2"), Some(2000));
    assert_eq!(read("0.3"), Some(300));
    assert_eq!(read("\"1.5\""), Some(1500));
    for wrong in ["0", "-1", "0.0001", "1e300", "true", "null", "\"\""] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_share_survives_printing_and_serialisation(millis in 10_u32..=4_096_000) {
        let cpus = Cpus::from_millis(millis).unwrap();
        prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
        let json = serde_json::to_string(&cpus).unwrap();
        prop_assert_eq!(serde_json::from_str::<Cpus>(&json).unwrap(), cpus);
    }

    #[test]
    fn no_text_upsets_the_parser(text: String) {
        if let Ok(cpus) = text.parse::<Cpus>() {
            prop_assert!((10..=4_096_000).contains(&cpus.millis()));
        }
    }
}
