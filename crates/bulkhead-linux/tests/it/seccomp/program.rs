//! The compiled filter, run here, against the table, read plainly.

use bulkhead_linux::seccomp::{
    Action, Arch, Check, Errno, Filter, Profile, Rule, Verdict, filter, rules, verdict,
};

const EPERM: Verdict = Verdict::Refuse(Errno::NotPermitted);
const ENOSYS: Verdict = Verdict::Refuse(Errno::NotImplemented);
const EAFNOSUPPORT: Verdict = Verdict::Refuse(Errno::FamilyNotSupported);
const EPROTONOSUPPORT: Verdict = Verdict::Refuse(Errno::ProtocolNotSupported);

/// The answer of the table to a call of this architecture, without a program.
fn reference(profile: Profile, number: u32, args: [u64; 6]) -> Verdict {
    let holds = |check: &Check| {
        check.values.contains(&(args[usize::from(check.argument)] & check.mask))
    };
    match rules(profile).find(|rule| rule.number == number).map(|rule| rule.action) {
        Some(Action::Always(verdict)) => verdict,
        Some(Action::ByArguments { clauses, otherwise }) => clauses
            .iter()
            .find(|clause| clause.checks.iter().all(holds))
            .map_or(otherwise, |clause| clause.verdict),
        None if number < 471 => EPERM,
        None => ENOSYS,
    }
}

/// Values of an argument at which the answer to the rule may change: those it names, each end of
/// its masks, and their neighbours.
fn boundaries(rule: Option<&Rule>, argument: u8) -> Vec<u64> {
    let mut values = vec![0, u64::MAX];
    if let Some(Action::ByArguments { clauses, otherwise: _ }) = rule.map(|rule| rule.action) {
        let checks = clauses.iter().flat_map(|clause| clause.checks);
        for check in checks.filter(|check| check.argument == argument) {
            let (lowest, highest) = (1 << check.mask.trailing_zeros(), 1 << check.mask.ilog2());
            values.extend([check.mask, !check.mask, lowest, highest]);
            values.extend([1, u64::from(u32::MAX), 1 << 32]);
            for value in check.values {
                values.extend([*value, value ^ 1, value | 1 << 32, value | 1 << 63]);
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    values
}

fn assert_same(profile: Profile, filter: &Filter, number: u32) {
    let rule = rules(profile).find(|rule| rule.number == number);
    let mut calls = vec![[0; 6]];
    for argument in 0..4 {
        let values = boundaries(rule, argument);
        let with = |args: [u64; 6]| {
            values.iter().map(move |value| {
                let mut args = args;
                args[usize::from(argument)] = *value;
                args
            })
        };
        calls = calls.into_iter().flat_map(with).collect();
    }
    for args in calls {
        let got = filter.verdict(Arch::NATIVE, number, args);
        assert_eq!(got, reference(profile, number, args), "{rule:?} with {args:x?}");
    }
}

#[test]
fn the_program_answers_as_the_table() {
    for profile in [Profile::Standard, Profile::Debug] {
        let filter = filter(profile);
        for number in 0..600 {
            assert_same(profile, &filter, number);
        }
    }
}

#[test]
fn the_same_profile_gives_the_same_program() {
    assert_eq!(filter(Profile::Standard), filter(Profile::Standard));
    assert_ne!(filter(Profile::Standard), filter(Profile::Debug));
}

#[test]
fn another_door_ends_the_process() {
    for arch in [Arch::X86_64, Arch::I386, Arch::Aarch64, Arch::Arm] {
        let getpid = verdict(Profile::Standard, arch, number_of("getpid"), [0; 6]);
        let expected = if arch == Arch::NATIVE { Verdict::Allow } else { Verdict::Kill };
        assert_eq!(getpid, expected, "{arch:?}");
    }
}

#[test]
fn x32_and_numbers_of_the_future_are_absent() {
    for rule in rules(Profile::Debug) {
        let x32 = rule.number | 0x4000_0000;
        assert_eq!(verdict(Profile::Debug, Arch::NATIVE, x32, [0; 6]), ENOSYS, "{}", rule.name);
    }
    for number in [472, 512, 547, 1023, 0x3fff_ffff, 0x8000_0000, u32::MAX] {
        assert_eq!(verdict(Profile::Debug, Arch::NATIVE, number, [0; 6]), ENOSYS);
    }
}

fn number_of(name: &str) -> u32 {
    rules(Profile::Standard).find(|rule| rule.name == name).expect("a call of Linux").number
}

/// Checks what the standard profile answers to a call with these first three arguments.
fn check(name: &str, [first, second, third]: [u64; 3], expected: Verdict) {
    let args = [first, second, third, 0, 0, 0];
    let got = verdict(Profile::Standard, Arch::NATIVE, number_of(name), args);
    assert_eq!(got, expected, "{name} with {args:x?}");
}

#[test]
fn a_terminal_cannot_be_typed_into_whatever_the_high_bits() {
    for request in [0x5412, 0x541c, 0x5423] {
        for high in [0, 1 << 32, 1 << 63, u64::from(u32::MAX) << 32] {
            check("ioctl", [0, request | high, 0], EPERM);
        }
    }
    check("ioctl", [0, 0x5413, 0], Verdict::Allow);
    check("ioctl", [0, 0x5401, 0], Verdict::Allow);
}

#[test]
fn no_flag_makes_a_namespace() {
    for flag in [
        0x0002_0000_u64,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
    ] {
        check("clone", [flag | 0x11, 0, 0], EPERM);
        check("clone", [flag | 1 << 32, 0, 0], EPERM);
        check("unshare", [flag, 0, 0], EPERM);
        check("unshare", [flag | 0x400, 0, 0], EPERM);
    }
    check("unshare", [0x80, 0, 0], EPERM);
    check("unshare", [1 << 32, 0, 0], EPERM);
    check("unshare", [0x4_0600, 0, 0], Verdict::Allow);
    // What glibc asks for to start a thread, and to fork.
    check("clone", [0x003d_0f00, 0, 0], Verdict::Allow);
    check("clone", [0x0120_0011, 0, 0], Verdict::Allow);
}

#[test]
fn only_plain_sockets_can_be_made() {
    let flags = 0o4000 | 0o2_000_000;
    for family in [2, 10] {
        for (kind, protocol) in [(1, 0), (1, 6), (2, 0), (2, 17), (2, 1), (2, 58)] {
            check("socket", [family, kind, protocol], Verdict::Allow);
            check("socket", [family, kind | flags, protocol], Verdict::Allow);
        }
        for raw in [3, 10, flags | 3, flags | 0xa] {
            check("socket", [family, raw, 0], EAFNOSUPPORT);
            check("socket", [family, raw, 1], EAFNOSUPPORT);
            check("socket", [family | 7 << 32, raw, 1], EAFNOSUPPORT);
        }
        // SCTP, MPTCP; UDP-Lite.
        check("socket", [family, 1, 132], EPROTONOSUPPORT);
        check("socket", [family, 1, 262], EPROTONOSUPPORT);
        check("socket", [family, 2, 136], EPROTONOSUPPORT);
    }
    check("socket", [1, 1, 0], Verdict::Allow);
    check("socket", [1, 5 | flags, 0], Verdict::Allow);
    check("socket", [16, 3, 0], Verdict::Allow);
    for netlink in 1..32 {
        check("socket", [16, 3, netlink], EAFNOSUPPORT);
    }
    // All other families, among them packet (17), ALG (38), vsock (40), XDP (44) and key (15).
    for family in (0..64).filter(|it| ![1, 2, 10, 16].contains(it)) {
        check("socket", [family, 2, 0], EAFNOSUPPORT);
        check("socket", [family | 1 << 32, 5, 0], EAFNOSUPPORT);
    }
    check("socketpair", [1, 1, 0], Verdict::Allow);
    check("socketpair", [2, 1, 0], EAFNOSUPPORT);
}

#[test]
fn no_device_node_can_be_made() {
    for device in [0o020_666, 0o060_666] {
        check("mknodat", [0, 0, device], EPERM);
        check("mknodat", [0, 0, device | 1 << 16], EPERM);
    }
    for harmless in [0o666, 0o100_666, 0o010_666, 0o140_666] {
        check("mknodat", [0, 0, harmless], Verdict::Allow);
    }
}

#[test]
fn only_a_call_that_makes_a_file_is_judged_by_its_mode() {
    let number = number_of("openat");
    let answer = |flags, mode| {
        verdict(Profile::Standard, Arch::NATIVE, number, [0, 0, flags, mode, 0, 0])
    };
    let (create, tmpfile, directory) = (0o100, 0o20_000_000, libc::O_DIRECTORY as u64);
    for set_id in [0o2000, 0o4000, 0o6000, 0o104_755, u64::MAX] {
        for makes in [create, tmpfile, tmpfile | directory, create | 2, create | 1 << 32] {
            assert_eq!(answer(makes, set_id), EPERM, "{makes:o} {set_id:o}");
            assert_eq!(answer(makes, set_id & !0o6000), Verdict::Allow, "{makes:o} {set_id:o}");
        }
        for opens in [0, 2, directory, !(create | tmpfile)] {
            assert_eq!(answer(opens, set_id), Verdict::Allow, "{opens:o} {set_id:o}");
        }
    }
}

#[test]
fn no_node_is_made_set_id() {
    for kind in [0, 0o100_000, 0o010_000, 0o140_000] {
        check("mknodat", [0, 0, kind | 0o1777], Verdict::Allow);
        check("mknodat", [0, 0, kind | 0o4755], EPERM);
        check("mknodat", [0, 0, kind | 0o2755], EPERM);
    }
}

#[test]
fn a_personality_is_asked_for_and_not_changed() {
    for allowed in [0, 0xffff_ffff, u64::MAX] {
        check("personality", [allowed, 0, 0], Verdict::Allow);
    }
    for other in [8, 0x2_0000, 0x4_0000, 0x40_0000] {
        check("personality", [other, 0, 0], EPERM);
    }
    let number = number_of("personality");
    let fixed = [0x4_0000, 0, 0, 0, 0, 0];
    assert_eq!(verdict(Profile::Debug, Arch::NATIVE, number, fixed), Verdict::Allow);
}
