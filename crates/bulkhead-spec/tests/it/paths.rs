use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

use bulkhead_spec::{GuestPath, HostPath, InvalidPath};
use proptest::prelude::*;

#[test]
fn one_path_has_one_form() {
    let cases = [
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/a", "/a"),
        ("/a/", "/a"),
        ("//a//b/./c/.", "/a/b/c"),
        ("/..a/b..", "/..a/b.."),
        ("/a b", "/a b"),
    ];
    for (text, path) in cases {
        let host: HostPath = text.parse().unwrap();
        let guest: GuestPath = text.parse().unwrap();
        assert_eq!((host.to_string(), guest.to_string()), (path.to_owned(), path.to_owned()));
    }
}

#[test]
fn a_path_that_is_relative_climbs_or_no_call_takes_is_refused() {
    let long = format!("/{}", "x".repeat(4095));
    let cases = ["", ".", "a", "./a", "~/a", "..", "/..", "/a/..", "/a/../b", "/a\0b", &long];
    for text in cases {
        let invalid = |it: Result<String, InvalidPath>| {
            it.unwrap_err().to_string().contains("is not an absolute path without `..`")
        };
        assert!(invalid(text.parse::<HostPath>().map(|it| it.to_string())), "{text:?}");
        assert!(invalid(text.parse::<GuestPath>().map(|it| it.to_string())), "{text:?}");
    }
}

#[test]
fn the_longest_path_that_the_kernel_takes_is_taken() {
    let longest = format!("/{}", "x".repeat(4094));
    assert!(longest.parse::<HostPath>().is_ok());
}

#[test]
fn a_path_need_not_be_text_and_prints_harmlessly() {
    let bytes = b"/a\xff/\x1b[2J".to_vec();
    let path = HostPath::try_from(PathBuf::from(OsString::from_vec(bytes.clone()))).unwrap();
    assert_eq!(path.as_path().as_os_str().as_encoded_bytes(), bytes);
    assert_eq!(path.to_string(), r"/a\xff/\u{1b}[2J");
    assert_eq!(serde_json::to_value(&path).unwrap(), r"/a\xff/\u{1b}[2J");
    let climbing = PathBuf::from(OsString::from_vec(b"/\xff/../x".to_vec()));
    insta::assert_snapshot!(
        GuestPath::try_from(climbing).unwrap_err(),
        @r"`/\xff/../x` is not an absolute path without `..`"
    );
}

#[test]
fn a_directory_holds_itself_and_what_is_below_but_not_its_namesakes() {
    let path = |text: &str| text.parse::<HostPath>().unwrap();
    let cases = [
        ("/", "/", true),
        ("/", "/a", true),
        ("/a", "/a", true),
        ("/a", "/a/b/c", true),
        ("/a", "/ab", false),
        ("/a/b", "/a", false),
        ("/a/b", "/a/bc", false),
    ];
    for (outer, inner, held) in cases {
        assert_eq!(path(outer).holds(&path(inner)), held, "{outer} {inner}");
    }
}

#[test]
fn a_file_cannot_smuggle_a_path_in() {
    assert!(serde_json::from_str::<HostPath>(r#""/a/b""#).is_ok());
    for wrong in [r#""a/b""#, r#""/a/../b""#, r#""/a\u0000""#, "1", "null"] {
        assert!(serde_json::from_str::<HostPath>(wrong).is_err(), "{wrong}");
        assert!(serde_json::from_str::<GuestPath>(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn a_path_that_was_accepted_is_absolute_and_settled(text in "[/.a\0]{0,12}") {
        if let Ok(path) = text.parse::<GuestPath>() {
            let settled = path.to_string();
            prop_assert!(settled.starts_with('/') && !settled.contains("//"));
            prop_assert!(settled.split('/').all(|part| part != "." && part != ".."));
            prop_assert_eq!(settled.parse(), Ok(path));
        }
    }
}
