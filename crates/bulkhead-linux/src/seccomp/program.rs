//! An assembler for the kernel's classic BPF.
//!
//! Classic BPF jumps only forward, by at most 255 instructions if there is a condition. So the
//! program is written from its end: whatever is jumped to already exists, its distance is known,
//! and a jump that would be too long goes through an unconditional one, which has 32 bits.

use std::mem::offset_of;

use serde::{Deserialize, Serialize};

use super::rule::Verdict;

/// One instruction, as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub(super) struct Instruction {
    /// What to do.
    pub(super) code: u16,
    /// How many instructions to skip if a condition holds.
    pub(super) yes: u8,
    /// How many to skip if it does not.
    pub(super) no: u8,
    /// The operand.
    pub(super) operand: u32,
}

/// Loads a word of the `seccomp_data` that describes the call.
pub(super) const LOAD: u16 = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
/// Keeps only the operand's bits of the loaded word.
pub(super) const AND: u16 = code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K);
/// Branches on whether the word is the operand.
pub(super) const IF_EQUAL: u16 = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
/// Branches on whether the word is the operand or greater, unsigned.
pub(super) const IF_AT_LEAST: u16 = code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K);
/// Skips as many instructions as the operand says.
pub(super) const SKIP: u16 = code(libc::BPF_JMP | libc::BPF_JA);
/// Ends with the operand as the verdict.
pub(super) const RETURN: u16 = code(libc::BPF_RET | libc::BPF_K);

#[expect(clippy::cast_possible_truncation, reason = "the kernel's field has 16 bits")]
const fn code(parts: u32) -> u16 {
    parts as u16
}

/// A word of `seccomp_data`, by its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u32);

impl Word {
    /// The call's number.
    pub(super) const NUMBER: Self = Self(offset(offset_of!(libc::seccomp_data, nr)));
    /// The architecture of the door it came by.
    pub(super) const ARCH: Self = Self(offset(offset_of!(libc::seccomp_data, arch)));
    /// Where the arguments start, 8 bytes each.
    const ARGUMENTS: u32 = offset(offset_of!(libc::seccomp_data, args));

    /// The low 32 bits of an argument; both architectures are little endian.
    pub(super) fn low(argument: u8) -> Self {
        Self(Self::ARGUMENTS + 8 * u32::from(argument))
    }

    /// The high 32 bits of an argument.
    pub(super) fn high(argument: u8) -> Self {
        Self(Self::low(argument).0 + 4)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the structure has 64 bytes")]
const fn offset(bytes: usize) -> u32 {
    bytes as u32
}

/// A place in the program, counted from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program under construction, its last instruction first.
#[derive(Debug, Default)]
pub(super) struct Backwards {
    instructions: Vec<Instruction>,
    endings: Vec<(Verdict, Label)>,
}

/// How far away a `RETURN` is shared rather than written again. Half of what a branch can reach,
/// so that the nodes between still reach it without a detour.
const NEARBY: usize = 128;

impl Backwards {
    /// The finished program, in the kernel's order. It starts with what was written last.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        self.instructions.reverse();
        self.instructions
    }

    /// A place that ends with the verdict.
    pub(super) fn end(&mut self, verdict: Verdict) -> Label {
        let known = self.endings.iter().rev().find(|(it, _)| *it == verdict);
        match known {
            Some((_, label)) if self.distance(*label) <= NEARBY => *label,
            Some(_) | None => {
                let label = self.push(RETURN, encode(verdict));
                self.endings.push((verdict, label));
                label
            }
        }
    }

    /// A branch on the loaded word.
    pub(super) fn branch(&mut self, test: u16, operand: u32, yes: Label, no: Label) -> Label {
        // A detour for `yes` would push `no` one further away, hence 254.
        let no = self.within(254, no);
        let yes = self.within(255, yes);
        let (yes, no) = (self.distance(yes), self.distance(no));
        #[expect(clippy::cast_possible_truncation, reason = "`within` has made both fit")]
        let (yes, no) = (yes as u8, no as u8);
        self.instructions.push(Instruction { code: test, yes, no, operand });
        Label(self.instructions.len() - 1)
    }

    /// A load of a word, or of some bits of it, before what is at `then`.
    pub(super) fn load(&mut self, word: Word, mask: u32, then: Label) -> Label {
        self.within(0, then);
        if mask != u32::MAX {
            self.push(AND, mask);
        }
        self.push(LOAD, word.0)
    }

    /// The label itself, or a detour to it, at most `limit` instructions away.
    fn within(&mut self, limit: usize, label: Label) -> Label {
        let distance = self.distance(label);
        if distance <= limit {
            return label;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel takes 4096 instructions"
        )]
        let distance = distance as u32;
        self.push(SKIP, distance)
    }

    /// How many instructions the next one would skip to get there.
    fn distance(&self, label: Label) -> usize {
        self.instructions.len() - 1 - label.0
    }

    fn push(&mut self, code: u16, operand: u32) -> Label {
        self.instructions.push(Instruction { code, yes: 0, no: 0, operand });
        Label(self.instructions.len() - 1)
    }
}

/// The kernel's word for a verdict.
pub(super) fn encode(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.code().cast_unsigned(),
        Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    }
}
