//! The kernel's reading of a program, done here.
//!
//! It knows the instructions that our compiler writes and no others. What it cannot follow it
//! answers with [`Verdict::Kill`], as the kernel does with an unknown answer.

use super::arch::Arch;
use super::program::{
    AND, IF_AT_LEAST, IF_EQUAL, Instruction, LOAD, RETURN, SKIP, Word, encode,
};
use super::rule::{Errno, Verdict};

/// A system call as the kernel describes it to a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) arch: Arch,
    pub(super) number: u32,
    pub(super) args: [u64; 6],
}

/// What the program answers to the call.
pub(super) fn run(program: &[Instruction], call: &Call) -> Verdict {
    let mut word = 0;
    let mut rest = program.iter();
    while let Some(instruction) = rest.next() {
        let operand = instruction.operand;
        let skip = match instruction.code {
            LOAD => {
                word = call.word(Word(operand));
                0
            }
            AND => {
                word &= operand;
                0
            }
            IF_EQUAL if word == operand => u32::from(instruction.yes),
            IF_AT_LEAST if word >= operand => u32::from(instruction.yes),
            IF_EQUAL | IF_AT_LEAST => u32::from(instruction.no),
            SKIP => operand,
            RETURN => return decode(operand),
            _ => return Verdict::Kill,
        };
        for _ in 0..skip {
            rest.next();
        }
    }
    Verdict::Kill
}

fn decode(answer: u32) -> Verdict {
    [
        Verdict::Allow,
        Verdict::Refuse(Errno::NotPermitted),
        Verdict::Refuse(Errno::NotImplemented),
        Verdict::Refuse(Errno::FamilyNotSupported),
        Verdict::Refuse(Errno::ProtocolNotSupported),
    ]
    .into_iter()
    .find(|verdict| encode(*verdict) == answer)
    .unwrap_or(Verdict::Kill)
}

impl Call {
    /// The word at an offset of `seccomp_data`, in which the instruction pointer is 0.
    fn word(&self, wanted: Word) -> u32 {
        let mut words = [[self.number, self.arch.audit_word()], [0, 0]]
            .into_iter()
            .chain(self.args.map(little_endian))
            .flatten();
        words.nth(wanted.0 as usize / size_of::<u32>()).unwrap_or(0)
    }
}

/// The two words of a register, in memory order.
#[expect(clippy::cast_possible_truncation, reason = "to take the low word is the purpose")]
fn little_endian(register: u64) -> [u32; 2] {
    [register as u32, (register >> 32) as u32]
}
