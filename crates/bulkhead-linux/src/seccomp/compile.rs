//! From the table to the program.
//!
//! Neighbouring numbers with the same answer become one range, and the ranges the leaves of a
//! balanced tree. The kernel walks the program once per call number when it is installed, so the
//! depth of the tree, and not the length of the list, is what a sandbox's start pays for.

use super::arch::Arch;
use super::program::{Backwards, IF_AT_LEAST, IF_EQUAL, Instruction, Label, Word};
use super::rule::{Action, Check, Clause, Errno, Rule, Verdict};

/// Call numbers from `first` up to the next range, which have one answer.
struct Range {
    first: u32,
    action: Action,
}

/// What is on no list.
const UNLISTED: Action = Action::Always(Verdict::Refuse(Errno::NotPermitted));

/// What is newer than the list. x32 ends here too: its numbers have bit 30 set. So does -1, which
/// a tracer writes to skip a call: it must not end the process.
const UNKNOWN: Action = Action::Always(Verdict::Refuse(Errno::NotImplemented));

/// The program that answers calls on `arch` as the rules say.
pub(super) fn compile<'a>(
    arch: Arch,
    rules: impl Iterator<Item = &'a Rule> + Clone,
) -> Vec<Instruction> {
    let mut program = Backwards::default();
    let tree = program_tree(&mut program, &ranges(rules));
    let own_door = program.load(Word::NUMBER, u32::MAX, tree);
    // Every call by another door ends the process. An error would not do: a 32-bit program whose
    // calls all fail cannot even exit, and loops or crashes somewhere that explains nothing.
    let other_door = program.end(Verdict::Kill);
    let which_door = program.branch(IF_EQUAL, arch.audit_word(), own_door, other_door);
    program.load(Word::ARCH, u32::MAX, which_door);
    program.finish()
}

/// The whole of the number space, in order, cut where the answer changes.
fn ranges<'a>(rules: impl Iterator<Item = &'a Rule> + Clone) -> Vec<Range> {
    let unlisted = rules.clone().map(|rule| rule.number + 1).max().unwrap_or(0);
    let mut actions = vec![UNLISTED; unlisted as usize];
    for rule in rules {
        if let Some(action) = actions.get_mut(rule.number as usize) {
            *action = rule.action;
        }
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (first, action) in (0..).zip(actions.into_iter().chain([UNKNOWN])) {
        if ranges.last().is_none_or(|last| last.action != action) {
            ranges.push(Range { first, action });
        }
    }
    ranges
}

/// A binary search for the loaded number.
fn program_tree(program: &mut Backwards, ranges: &[Range]) -> Label {
    match ranges.split_at(ranges.len() / 2) {
        (_, []) => program.end(Verdict::Refuse(Errno::NotPermitted)),
        ([], [only]) => program_leaf(program, only.action),
        (below, above @ [middle, ..]) => {
            let yes = program_tree(program, above);
            let no = program_tree(program, below);
            program.branch(IF_AT_LEAST, middle.first, yes, no)
        }
    }
}

fn program_leaf(program: &mut Backwards, action: Action) -> Label {
    match action {
        Action::Always(verdict) => program.end(verdict),
        Action::ByArguments { clauses, otherwise } => {
            let mut next = program.end(otherwise);
            for clause in clauses.iter().rev() {
                next = program_clause(program, clause, next);
            }
            next
        }
    }
}

fn program_clause(program: &mut Backwards, clause: &Clause, otherwise: Label) -> Label {
    let mut next = program.end(clause.verdict);
    for check in clause.checks.iter().rev() {
        next = program_check(program, check, next, otherwise);
    }
    next
}

fn program_check(program: &mut Backwards, check: &Check, yes: Label, no: Label) -> Label {
    let (high_mask, low_mask) = halves(check.mask);
    let narrow = high_mask == 0 && check.values.iter().all(|value| halves(*value).0 == 0);
    let mut next = no;
    for value in check.values.iter().rev() {
        let (high, low) = halves(*value);
        let same_low = program.branch(IF_EQUAL, low, yes, next);
        if narrow {
            next = same_low;
        } else {
            let same_high = program.load(Word::low(check.argument), low_mask, same_low);
            let wide = program.branch(IF_EQUAL, high, same_high, next);
            next = program.load(Word::high(check.argument), high_mask, wide);
        }
    }
    // The values of a narrow check are compared one after the other with a word loaded once.
    if narrow { program.load(Word::low(check.argument), low_mask, next) } else { next }
}

/// The high and the low word of a register.
#[expect(clippy::cast_possible_truncation, reason = "to take the low word is the purpose")]
fn halves(register: u64) -> (u32, u32) {
    ((register >> 32) as u32, register as u32)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::seccomp::interpret::{Call, run};
    use crate::seccomp::program::SKIP;

    /// What the rules say, without a program.
    fn reference(rules: &[Rule], number: u32, args: [u64; 6]) -> Verdict {
        let holds = |check: &Check| {
            let register = args[usize::from(check.argument)];
            check.values.contains(&(register & check.mask))
        };
        let newest = rules.iter().map(|rule| rule.number).max();
        match rules.iter().find(|rule| rule.number == number).map(|rule| rule.action) {
            Some(Action::Always(verdict)) => verdict,
            Some(Action::ByArguments { clauses, otherwise }) => clauses
                .iter()
                .find(|clause| clause.checks.iter().all(holds))
                .map_or(otherwise, |clause| clause.verdict),
            None if newest.is_some_and(|newest| number < newest) => {
                Verdict::Refuse(Errno::NotPermitted)
            }
            None => Verdict::Refuse(Errno::NotImplemented),
        }
    }

    fn assert_same(rules: &[Rule], program: &[Instruction], number: u32, args: [u64; 6]) {
        let got = run(program, &Call { arch: Arch::NATIVE, number, args });
        assert_eq!(got, reference(rules, number, args), "call {number} with {args:x?}");
    }

    fn verdict() -> impl Strategy<Value = Verdict> {
        prop::sample::select(vec![
            Verdict::Allow,
            Verdict::Kill,
            Verdict::Refuse(Errno::NotPermitted),
            Verdict::Refuse(Errno::NotImplemented),
            Verdict::Refuse(Errno::FamilyNotSupported),
            Verdict::Refuse(Errno::ProtocolNotSupported),
        ])
    }

    /// Few bits in each half, so that random registers often match.
    fn register() -> impl Strategy<Value = u64> {
        (0..4_u64, prop::sample::select(vec![0, 0, 1, 0x8000_0000]))
            .prop_map(|(low, high)| high << 32 | low)
    }

    fn check() -> impl Strategy<Value = Check> {
        let mask = prop::sample::select(vec![3, u64::MAX, 0xffff_ffff, 1 << 32 | 1, 1 << 63]);
        (0..6_u8, mask, vec(register(), 0..4)).prop_map(|(argument, mask, values)| Check {
            argument,
            mask,
            values: values.leak(),
        })
    }

    fn action() -> impl Strategy<Value = Action> {
        let clause = (vec(check(), 0..4), verdict())
            .prop_map(|(checks, verdict)| Clause { checks: checks.leak(), verdict });
        prop_oneof![
            verdict().prop_map(Action::Always),
            (vec(clause, 0..4), verdict()).prop_map(|(clauses, otherwise)| {
                Action::ByArguments { clauses: clauses.leak(), otherwise }
            }),
        ]
    }

    fn table() -> impl Strategy<Value = Vec<Rule>> {
        prop::collection::btree_map(0..200_u32, action(), 0..120).prop_map(|actions| {
            actions
                .into_iter()
                .map(|(number, action)| Rule { name: "", number, action, reason: "" })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn a_program_answers_as_its_table(
            rules in table(),
            calls in vec((0..210_u32, prop::array::uniform6(register())), 400),
        ) {
            let program = compile(Arch::NATIVE, rules.iter());
            for (number, args) in calls {
                assert_same(&rules, &program, number, args);
            }
        }
    }

    #[test]
    fn a_table_longer_than_a_jump_is_still_searched_right() {
        // No two neighbours agree, and each has its own checks: thousands of instructions.
        let rules: Vec<Rule> = (0..300_u32)
            .map(|number| {
                let values = vec![u64::from(number) << 32 | 7, u64::from(number)].leak();
                let checks = vec![Check { argument: 5, mask: u64::MAX, values }].leak();
                let clauses = vec![Clause { checks, verdict: Verdict::Allow }].leak();
                let otherwise = Verdict::Refuse(Errno::NotPermitted);
                let action = Action::ByArguments { clauses, otherwise };
                Rule { name: "", number, action, reason: "" }
            })
            .collect();
        let program = compile(Arch::NATIVE, rules.iter());
        assert!(program.len() <= 4096, "the kernel takes no more");
        assert!(program.iter().any(|it| it.code == SKIP), "nothing was out of reach");
        for number in 0..310 {
            for last in [0, 7, u64::from(number), u64::from(number) << 32 | 7, u64::MAX] {
                assert_same(&rules, &program, number, [0, 0, 0, 0, 0, last]);
            }
        }
    }

    #[test]
    fn an_empty_table_refuses_everything() {
        let program = compile(Arch::NATIVE, [].iter());
        for number in [0, 1, 0x4000_0000, u32::MAX] {
            assert_same(&[], &program, number, [0; 6]);
        }
    }
}
