//! What no case file can say: words that are no text, or that are very long.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, time::Duration};

use bulkhead_policy::{Denial, ExecPlan, Plan, Policy, resolve};
use bulkhead_spec::{Exec, Spec};

const MIB: usize = 1 << 20;

fn plan() -> Plan {
    resolve(Spec::default(), &Policy::default()).unwrap()
}

fn admit(argv: Vec<OsString>) -> Result<ExecPlan, Denial> {
    plan().admit(Exec { argv, ..Exec::default() })
}

#[test]
fn arguments_need_not_be_text() {
    let word = OsString::from_vec(b"\xff\x1b".to_vec());
    let exec = admit(vec!["cat".into(), word.clone()]).unwrap();
    assert_eq!(exec.argv(), ["cat".into(), word]);
    let json = serde_json::to_value(&exec).unwrap();
    assert_eq!(json["argv"], serde_json::json!(["cat", r"\xff\u{1b}"]));
}

#[test]
fn a_mebibyte_of_words_is_the_most() {
    // The program, its argument, and the NUL that ends each, make a MiB exactly.
    let argument = |length: usize| vec!["p".into(), "x".repeat(length).into()];
    assert!(admit(argument(MIB - 3)).is_ok());
    let longer = admit(argument(MIB - 2)).unwrap_err();
    insta::assert_snapshot!(
        longer,
        @"the arguments and variables are longer than 1 MiB; pass large input in a file"
    );
}

#[test]
fn many_short_words_count_as_much_as_a_long_one() {
    assert!(admit(vec!["x".into(); MIB / 2]).is_ok());
    assert!(admit(vec!["x".into(); MIB / 2 + 1]).is_err());
}

#[test]
fn variables_of_the_room_and_of_the_program_count_together() {
    let half = |name: &str| (name.into(), "x".repeat(MIB / 2).into());
    let spec = Spec { env: [half("ROOM")].into(), ..Spec::default() };
    let plan = resolve(spec, &Policy::default()).unwrap();
    let exec = |env| Exec { argv: vec!["p".into()], env, ..Exec::default() };
    assert!(plan.admit(exec([].into())).is_ok());
    assert!(plan.admit(exec([half("ROOM")].into())).is_ok(), "one value replaces the other");
    assert!(plan.admit(exec([half("MORE")].into())).is_err());
}

#[test]
fn a_variable_of_the_program_wins_and_no_value_is_written_down() {
    let spec = Spec {
        env: [("A".into(), "room".into()), ("B".into(), "hunter2".into())].into(),
        ..Spec::default()
    };
    let plan = resolve(spec, &Policy::default()).unwrap();
    let env = [("A".into(), "program".into())].into();
    let exec = plan.admit(Exec { argv: vec!["p".into()], env, ..Exec::default() }).unwrap();
    let expected = [("A".into(), "program".into()), ("B".into(), "hunter2".into())].into();
    assert_eq!(exec.env(), &expected);
    for written in [serde_json::to_string(&plan), serde_json::to_string(&exec)] {
        let written = written.unwrap();
        assert!(written.contains(r#""env_names":["A","B"]"#), "{written}");
        assert!(!written.contains("hunter2"), "{written}");
    }
}

#[test]
fn grace_is_passed_on() {
    let grace = Duration::from_secs(7);
    let exec = Exec { argv: vec!["p".into()], grace, ..Exec::default() };
    assert_eq!(plan().admit(exec).unwrap().grace(), grace);
}
