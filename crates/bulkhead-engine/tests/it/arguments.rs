//! What a program is given.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use crate::{
    ask::{program, sh},
    house::House,
};

#[tokio::test]
async fn arguments_need_not_be_text() {
    let house = House::new();
    let strange = b"\xff\xfe line\nbreak \x1b[2J \xc3(".to_vec();
    let ask = program(&["/usr/bin/printf", "%s"]);
    let ask = ask.with(|it| it.exec.argv.push(OsString::from_vec(strange.clone())));
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.stdout.head, strange);
}

#[tokio::test]
async fn most_of_a_mebibyte_of_arguments_arrives_whole() {
    let house = House::new();
    let words: Vec<String> = (0..9).map(|it| it.to_string().repeat(100 * 1024)).collect();
    let script = r#"for word; do printf '%s %.1s;' "${#word}" "$word"; done"#;
    let ask = sh(script).with(|it| {
        it.exec.argv.push("sh".into());
        it.exec.argv.extend(words.iter().map(OsString::from));
    });
    let said = house.says(ask).await;
    let expected: Vec<String> = (0..9).map(|it| format!("102400 {it}")).collect();
    assert_eq!(said.split_terminator(';').collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let house = House::new();
    let room = [("SHARED", "of the room"), ("BOTH", "of the room")];
    let own = [("BOTH", "of the program"), ("EMPTY", ""), ("ODD", "a=b\nc")];
    let ask = program(&["/usr/bin/env", "-0"]).with(|it| {
        it.spec.env = room.map(|(name, value)| (name.into(), value.into())).into();
        it.exec.env = own.map(|(name, value)| (name.into(), value.into())).into();
    });
    let said = house.says(ask).await;
    let got: BTreeMap<&str, &str> =
        said.split_terminator('\0').map(|it| it.split_once('=').unwrap()).collect();
    let expected = [
        ("BOTH", "of the program"),
        ("EMPTY", ""),
        ("ODD", "a=b\nc"),
        ("SHARED", "of the room"),
    ];
    assert_eq!(got, expected.into());
}

#[tokio::test]
async fn a_value_need_not_be_text() {
    let house = House::new();
    let value = OsString::from_vec(b"\xff\x80".to_vec());
    let ask = sh("printf %s \"$STRANGE\"").with(|it| {
        it.exec.env.insert("STRANGE".into(), value.clone());
    });
    let outcome = house.run(ask).await.unwrap();
    assert_eq!(outcome.stdout.head, value.as_bytes());
}
