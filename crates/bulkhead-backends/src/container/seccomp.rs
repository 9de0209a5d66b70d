//! The table of system calls, in the words of a container daemon.
//!
//! A daemon's profile cannot say everything that the table says: of two clauses of one call it
//! knows no order, and an error for "all others" is the same for every call. So the profile lets
//! through whatever the table may let through and refuses the rest; the guest then installs the
//! table itself, to the letter, as it does on every backend. Where both refuse, the kernel reports
//! the error of the inner one.
//!
//! Invariant: what the table allows, the profile allows; what no clause of the table allows, the
//! profile refuses.

use bulkhead_linux::seccomp::{Action, Arch, Check, Errno, Profile, Rule, Verdict, rules};
use serde::Serialize;

use super::lower::Users;

/// A profile as Docker and Podman read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    default_action: &'static str,
    architectures: [&'static str; 1],
    syscalls: Vec<Entry>,
}

/// Calls with one answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    names: Vec<&'static str>,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<Argument>,
}

/// Holds if the argument, masked with `value`, is `value_two`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u8,
    value: u64,
    value_two: u64,
    op: &'static str,
}

/// `CLONE_NEWUSER`.
const NEW_USER: u64 = 0x1000_0000;

const ALLOW: &str = "SCMP_ACT_ALLOW";
const REFUSE: &str = "SCMP_ACT_ERRNO";

/// The profile for `profile`, as the text that a daemon takes.
///
/// A guest that makes a user namespace for itself is let through to that, once more than the table
/// allows; afterwards the table is what counts.
pub(super) fn document(profile: Profile, users: Users) -> Result<String, serde_json::Error> {
    let mut allowed = plain(ALLOW, None);
    let mut absent = plain(REFUSE, Some(Errno::NotImplemented.code()));
    let mut inspected = Vec::new();
    for rule in rules(profile) {
        match rule.action {
            Action::Always(Verdict::Allow)
            | Action::ByArguments { otherwise: Verdict::Allow, .. } => {
                allowed.names.push(rule.name);
            }
            Action::Always(Verdict::Refuse(Errno::NotImplemented)) => {
                absent.names.push(rule.name);
            }
            // As whatever is not named.
            Action::Always(Verdict::Refuse(_) | Verdict::Kill) => {}
            Action::ByArguments { clauses, otherwise: Verdict::Refuse(_) | Verdict::Kill } => {
                let allowing = clauses.iter().filter(|it| it.verdict == Verdict::Allow);
                inspected.extend(allowing.flat_map(|it| entries(rule, it.checks)));
            }
        }
    }
    match users {
        Users::Usual | Users::Hosts | Users::Kept => {}
        Users::Apart => inspected.push(Entry {
            names: vec!["unshare"],
            args: vec![Argument {
                index: 0,
                value: u64::MAX,
                value_two: NEW_USER,
                op: "SCMP_CMP_MASKED_EQ",
            }],
            ..plain(ALLOW, None)
        }),
    }
    let syscalls = [allowed, absent].into_iter().chain(inspected).collect();
    let document = Document { default_action: REFUSE, architectures: [door()], syscalls };
    serde_json::to_string(&document)
}

fn plain(action: &'static str, errno_ret: Option<i32>) -> Entry {
    Entry { names: Vec::new(), action, errno_ret, args: Vec::new() }
}

/// One entry for each way in which the checks can hold together.
fn entries(rule: &Rule, checks: &[Check]) -> Vec<Entry> {
    let mut ways: Vec<Vec<Argument>> = vec![Vec::new()];
    for check in checks {
        let with = |way: &Vec<Argument>, value: u64| {
            let argument = Argument {
                index: check.argument,
                value: check.mask,
                value_two: value,
                op: "SCMP_CMP_MASKED_EQ",
            };
            way.iter().copied().chain([argument]).collect()
        };
        ways = ways
            .iter()
            .flat_map(|way| check.values.iter().map(move |value| with(way, *value)))
            .collect();
    }
    let entry = |args| Entry { names: vec![rule.name], args, ..plain(ALLOW, None) };
    ways.into_iter().map(entry).collect()
}

/// Calls by any other door end the process, as with the table itself.
fn door() -> &'static str {
    match Arch::NATIVE {
        Arch::X86_64 => "SCMP_ARCH_X86_64",
        Arch::I386 => "SCMP_ARCH_X86",
        Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        Arch::Arm => "SCMP_ARCH_ARM",
    }
}

#[cfg(test)]
mod tests {
    use bulkhead_linux::seccomp::filter;
    use serde_json::Value;

    use super::*;

    fn parsed(profile: Profile) -> Vec<Value> {
        let document: Value =
            serde_json::from_str(&document(profile, Users::Usual).unwrap()).unwrap();
        assert_eq!(document["defaultAction"], REFUSE);
        document["syscalls"].as_array().unwrap().clone()
    }

    /// Whether the profile lets the call through, as a runtime reads it.
    fn allows(entries: &[Value], name: &str, args: [u64; 6]) -> bool {
        let holds = |it: &Value| {
            let [index, mask, value] =
                ["index", "value", "valueTwo"].map(|key| it[key].as_u64().unwrap());
            args[usize::try_from(index).unwrap()] & mask == value
        };
        entries.iter().any(|entry| {
            let named = entry["names"].as_array().unwrap().iter().any(|it| it == name);
            let args = entry["args"].as_array().cloned().unwrap_or_default();
            named && entry["action"] == ALLOW && args.iter().all(holds)
        })
    }

    /// Values that some check of some rule asks about, and one that none does.
    fn telling() -> Vec<u64> {
        let mut values: Vec<u64> = vec![0, 0x6000_0000, u64::MAX];
        for rule in rules(Profile::Debug) {
            if let Action::ByArguments { clauses, .. } = rule.action {
                let checks = clauses.iter().flat_map(|it| it.checks);
                values.extend(checks.flat_map(|it| it.values));
            }
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    #[test]
    fn whatever_the_table_allows_the_profile_allows() {
        let values = telling();
        for profile in [Profile::Standard, Profile::Debug] {
            let (entries, filter) = (parsed(profile), filter(profile));
            let check = |rule: &Rule, args| {
                let inner = filter.verdict(Arch::NATIVE, rule.number, args);
                let outer = inner != Verdict::Allow || allows(&entries, rule.name, args);
                assert!(outer, "{} {args:?}", rule.name);
            };
            for rule in rules(profile) {
                check(rule, [0; 6]);
            }
            let inspected = |it: &&Rule| matches!(it.action, Action::ByArguments { .. });
            for rule in rules(profile).filter(inspected) {
                for one in &values {
                    check(rule, [*one, 1, 0, 0, 0, 0]);
                    check(rule, [0, *one, *one, *one, 0, 0]);
                    check(rule, [2, 1, *one, 0, 0, 0]);
                }
            }
        }
    }

    #[test]
    fn whatever_no_clause_allows_the_profile_refuses() {
        let entries = parsed(Profile::Standard);
        for name in ["ptrace", "mount", "bpf", "keyctl", "clone3", "io_uring_setup", "setns"] {
            assert!(!allows(&entries, name, [0; 6]), "{name}");
        }
        let socket = |family, kind, protocol| {
            allows(&entries, "socket", [family, kind, protocol, 0, 0, 0])
        };
        assert!(socket(1, 1, 0), "a local one");
        assert!(socket(2, 1 | 0x8_0000, 6), "TCP, closed on exec");
        assert!(!socket(2, 3, 0), "a raw one");
        assert!(!socket(38, 5, 0), "AF_ALG");
        assert!(!socket(17, 3, 0), "a packet socket");
        let clone = |flags| allows(&entries, "clone", [flags, 0, 0, 0, 0, 0]);
        assert!(clone(0x0000_0011), "a process");
        assert!(!clone(0x1000_0011), "a user namespace");
    }

    #[test]
    fn only_who_must_make_a_user_namespace_may() {
        let text = document(Profile::Standard, Users::Apart).unwrap();
        let apart: Value = serde_json::from_str(&text).unwrap();
        let apart = apart["syscalls"].as_array().unwrap();
        let unshare =
            |entries: &[Value], flags| allows(entries, "unshare", [flags, 0, 0, 0, 0, 0]);
        assert!(unshare(apart, NEW_USER));
        assert!(!unshare(apart, NEW_USER | 0x2_0000), "with mounts");
        assert!(!unshare(&parsed(Profile::Standard), NEW_USER));
    }

    #[test]
    fn what_programs_fall_back_from_is_absent() {
        let entries = parsed(Profile::Standard);
        let absent = entries.iter().find(|it| it["errnoRet"] == 38).unwrap();
        let names = absent["names"].as_array().unwrap();
        assert!(names.iter().any(|it| it == "clone3"));
    }
}
