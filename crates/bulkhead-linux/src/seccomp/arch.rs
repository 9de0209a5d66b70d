//! By which architecture's door a system call comes in.

/// An instruction set whose calls this machine's kernel may answer.
///
/// One processor has several doors: `int 0x80` on `x86_64` is [`Arch::I386`], where the same number
/// means another call, so a filter that did not ask would judge the wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit Intel and AMD, and x32, which is told apart by bit 30 of the number.
    X86_64,
    /// 32-bit Intel and AMD.
    I386,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
}

impl Arch {
    /// The architecture of this build.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Self = Self::X86_64;
    /// The architecture of this build.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Self = Self::Aarch64;

    /// The kernel's `AUDIT_ARCH_*` word: the ELF machine, with bits for 64 bits and little endian.
    pub(super) fn audit_word(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::I386 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
        }
    }
}
