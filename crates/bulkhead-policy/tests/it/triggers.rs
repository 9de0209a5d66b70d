use std::{collections::BTreeSet, path::Path};

use bulkhead_policy::{GIT_TRIGGERS, WORKSPACE_TRIGGERS, holds_secrets};

#[test]
fn which_names_are_taken_for_secrets() {
    let hidden: [&[u8]; 12] = [
        b".env",
        b".env.local",
        b".env.production",
        b".env-staging",
        b".env_test",
        b".env~",
        b".env.",
        b".envrc",
        b".ENV",
        b".Env.Local",
        b".env.example.local",
        b".env.\xff",
    ];
    let shown: [&[u8]; 12] = [
        b"",
        b"env",
        b"x.env",
        b".environment",
        b".envoy.yaml",
        b".envrcs",
        b".env.example",
        b".env.sample",
        b".env.template",
        b".env.dist",
        b".ENV.Example",
        b".en",
    ];
    for name in hidden {
        assert!(holds_secrets(name), "{}", name.escape_ascii());
    }
    for name in shown {
        assert!(!holds_secrets(name), "{}", name.escape_ascii());
    }
}

#[test]
fn triggers_are_distinct_names_below_their_directory() {
    for list in [WORKSPACE_TRIGGERS, GIT_TRIGGERS] {
        assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len());
        for path in list {
            let plain = |part: &str| !matches!(part, "" | "." | "..");
            assert!(Path::new(path).is_relative() && path.split('/').all(plain), "{path}");
        }
    }
}
