//! What the table says.

use std::collections::BTreeMap;

use bulkhead_linux::seccomp::{Action, Profile, Rule, rules};

const PROFILES: [Profile; 2] = [Profile::Standard, Profile::Debug];

#[test]
fn no_call_is_judged_twice() {
    for profile in PROFILES {
        let mut seen = BTreeMap::new();
        for rule in rules(profile) {
            let before = seen.insert(rule.number, rule.name);
            assert_eq!(before, None, "{} has the number of {before:?}", rule.name);
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn every_call_of_linux_is_judged() {
    for profile in PROFILES {
        // The kernel has kept 337 to 423 free, to number alike on all architectures from 424 on.
        let judged = |number: &u32| rules(profile).any(|rule| rule.number == *number);
        let missing: Vec<u32> = (0..=336).chain(424..=471).filter(|it| !judged(it)).collect();
        assert_eq!(missing, []);
        assert_eq!(rules(profile).count(), 337 + 48);
    }
}

#[test]
fn every_check_can_hold() {
    for rule in PROFILES.into_iter().flat_map(rules) {
        if let Action::ByArguments { clauses, otherwise: _ } = rule.action {
            for check in clauses.iter().flat_map(|clause| clause.checks) {
                let stray = check.values.iter().find(|value| *value & !check.mask != 0);
                assert_eq!(stray, None, "{} compares bits that it masks", rule.name);
                assert!(check.argument < 6, "{} has no such argument", rule.name);
            }
        }
    }
}

/// The list in one file, so that a change to it is read as a change to the wall.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_list_is_the_one_reviewed() {
    let line = |rule: &Rule| format!("{} | {} | {}\n", rule.name, rule.action, rule.reason);
    insta::assert_snapshot!("standard", rules(Profile::Standard).map(line).collect::<String>());
    let added: String = rules(Profile::Debug)
        .filter(|rule| !rules(Profile::Standard).any(|it| it == *rule))
        .map(line)
        .collect();
    insta::assert_snapshot!("debug", added);
}
