//! Whatever comes over the wire, reading it neither panics nor lets something through that the
//! types forbid. The inputs are generated.

use bulkhead_engine::rooms::{Admission, Quota, Reserve};
use bulkhead_policy::Policy;
use bulkhead_spec::Spec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    ask::parsed,
    problem::cleaned,
    programs,
    room::is_name,
    wanted::record,
    words::{
        ExecAsked, LifetimeAsked, MoveAsked, NewDirectory, NewProgram, NewSandbox, SignalAsked,
        TerminalSize,
    },
};
use crate::house::Base;

fn base() -> Base {
    Base {
        spec: Spec::default(),
        policy: Policy::default(),
        backend: "native".to_owned(),
        runtime: None,
        program: "/nowhere".into(),
        gateways: "/nowhere".into(),
        state: "/nowhere".into(),
        admission: Admission { reserve: Reserve::default(), state: "/nowhere".into() },
        quota: Quota::default(),
        pool: 0,
    }
}

/// Any JSON, not too deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Objects that have the fields of a request, with anything in them.
fn with_fields(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let pair = (prop::sample::select(names), any_json());
    prop::collection::vec(pair, 0..6).prop_map(|pairs| {
        let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value));
        Value::Object(pairs.collect::<Map<_, _>>())
    })
}

/// Wishes that can be understood, with odd values.
fn wish() -> impl Strategy<Value = Value> {
    let text = "[a-zA-Z0-9./:=*_ -]{0,24}";
    (
        prop::option::of(text),
        prop::option::of(text),
        prop::collection::btree_map(text, text, 0..3),
        prop::option::of(any::<f64>()),
        prop::collection::vec(text, 0..3),
        prop::option::of(any::<f64>()),
    )
        .prop_map(|(name, image, pairs, cpus, hosts, ttl)| {
            json!({
                "name": name, "image": image, "labels": pairs, "env": pairs,
                "limits": { "cpus": cpus, "memory_bytes": 1, "timeout_seconds": ttl },
                "network": { "allow": hosts, "deny": hosts },
                "lifetime": { "ttl_seconds": ttl },
                "require": hosts,
            })
        })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(parsed::<NewSandbox>(&bytes));
        drop(parsed::<NewProgram>(&bytes));
        drop(parsed::<ExecAsked>(&bytes));
        drop(parsed::<LifetimeAsked>(&bytes));
        drop(parsed::<MoveAsked>(&bytes));
        drop(parsed::<NewDirectory>(&bytes));
        drop(parsed::<SignalAsked>(&bytes));
        drop(parsed::<TerminalSize>(&bytes));
    }

    #[test]
    fn any_sandbox_that_is_understood_becomes_a_record_or_a_refusal(
        value in prop_oneof![
            wish(),
            with_fields(&["name", "labels", "image", "env", "limits", "network", "lifetime",
                          "require", "mounts"]),
        ],
    ) {
        let text = value.to_string();
        if let Ok(wanted) = parsed::<NewSandbox>(text.as_bytes()) {
            let labels = wanted.labels.clone();
            if let Ok(record) = record(&base(), "s0", wanted) {
                prop_assert!(is_name(&record.name));
                prop_assert!(record.spec.mounts.is_empty() && record.spec.workspace.is_none());
                prop_assert_eq!(record.labels, labels);
            }
        }
        prop_assert!(value.get("mounts").is_none() || parsed::<NewSandbox>(text.as_bytes()).is_err());
    }

    #[test]
    fn any_program_is_understood_or_refused(
        value in with_fields(&["argv", "command", "cwd", "env", "timeout_seconds", "stdin",
                               "terminal", "tag", "keep_bytes", "encoding"]),
    ) {
        let text = value.to_string();
        if let Ok(asked) = parsed::<NewProgram>(text.as_bytes())
            && let Ok(words) = programs::words(asked.argv, asked.command)
        {
            prop_assert!(!words.is_empty());
        }
        drop(parsed::<ExecAsked>(text.as_bytes()));
    }

    #[test]
    fn what_is_read_is_written_the_same(
        name in prop::option::of(".{0,10}"),
        env in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..4),
        memory in prop::option::of(any::<u64>()),
    ) {
        let limits = super::words::LimitsAsked { memory_bytes: memory, ..Default::default() };
        let wanted = NewSandbox { name, env, limits: Some(limits), ..NewSandbox::default() };
        let text = serde_json::to_vec(&wanted).unwrap();
        prop_assert_eq!(parsed::<NewSandbox>(&text).unwrap(), wanted);
    }

    #[test]
    fn any_text_is_a_signal_or_none(text in ".{0,12}") {
        prop_assert!(programs::named(&text).is_none_or(|it| 0 < it.as_raw()));
    }

    #[test]
    fn nothing_that_steers_gets_through(text in ".{0,600}") {
        let shown = cleaned(&text);
        prop_assert!(shown.chars().count() <= 500);
        prop_assert!(!shown.contains(['<', '>']) && !shown.chars().any(char::is_control));
    }

    #[test]
    fn a_name_is_never_a_path(text in ".{0,80}") {
        if is_name(&text) {
            prop_assert!(!text.contains('/') && !text.starts_with('.') && text.len() <= 64);
        }
    }
}
