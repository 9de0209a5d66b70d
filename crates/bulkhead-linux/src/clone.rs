//! A child that shares our memory and runs one function.
//!
//! A plain fork copies the page tables of the parent: 57 ms for a parent of 1 GiB. This child is
//! made in a tenth of a millisecond whatever the parent's size, at a price: it runs on the
//! parent's memory, so its function must be of the kind described in [`crate`].

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap_anonymous, munmap},
    process::Pid,
};

use crate::sys::check;

/// Room for the child: a loop over steps needs about a page.
const STACK: usize = 64 * 1024;

/// Above 32 bits, where the C library's constants end.
const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// A child that was made.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
}

/// How a child is made.
pub(crate) struct Cradle<'a> {
    /// The kernel's words for what is different about it.
    pub(crate) flags: i32,
    /// The cgroup that it is born in.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// The kernel makes this 0 when the child has left our memory.
    pub(crate) leaves: Option<&'a AtomicI32>,
    /// What it runs on until it executes a program.
    pub(crate) stack: &'a Stack,
    /// Where the kernel says who it is, before the child or anybody else does anything.
    pub(crate) told: &'a Told,
}

/// What the kernel says of a child.
#[derive(Debug)]
pub(crate) struct Told {
    pid: AtomicI32,
    pidfd: AtomicI32,
}

impl Told {
    pub(crate) const fn nothing() -> Self {
        Self { pid: AtomicI32::new(0), pidfd: AtomicI32::new(-1) }
    }

    /// The child, once, if there is one.
    pub(crate) fn take(&self) -> Option<Child> {
        let pid = Pid::from_raw(self.pid.swap(0, Ordering::AcqRel))?;
        // SAFETY: the kernel has put a new descriptor there, and it is taken once.
        let pidfd = unsafe { OwnedFd::from_raw_fd(self.pidfd.load(Ordering::Acquire)) };
        Some(Child { pid, pidfd })
    }
}

/// Memory for a child to run on. Not from the heap, so that only those pages are paid for that the
/// child uses.
#[derive(Debug)]
pub(crate) struct Stack {
    start: usize,
    length: usize,
}

impl Stack {
    pub(crate) fn new() -> io::Result<Self> {
        Self::of(STACK)
    }

    /// One of that many bytes, a multiple of the page size.
    pub(crate) fn of(length: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        Ok(Self { start: start.expose_provenance(), length })
    }

    fn top(&self) -> usize {
        self.start + self.length
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let start = ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: it was mapped by us, and whoever drops it knows that nobody runs on it. Nothing can
        // fail that was mapped with this length.
        unsafe { munmap(start, self.length) }.unwrap_or_default();
    }
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Makes a child that runs `body(context)`.
///
/// Allocates nothing, so it may be called by such a child.
///
/// # Safety
/// `context` and what the cradle has must stay valid until the child has executed a program or exited.
/// `body` must not allocate, lock, unwind or touch thread-local state.
pub(crate) unsafe fn clone<T>(
    cradle: &Cradle<'_>,
    body: extern "C" fn(*const T) -> !,
    context: *const T,
) -> Result<(), Errno> {
    let flags = cradle.flags | libc::CLONE_VM | libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID;
    let mut args = CloneArgs {
        flags: u64::from(flags.unsigned_abs()) | CLEAR_SIGHAND,
        pidfd: cradle.told.pidfd.as_ptr().addr() as u64,
        parent_tid: cradle.told.pid.as_ptr().addr() as u64,
        stack: cradle.stack.start as u64,
        stack_size: cradle.stack.length as u64,
        ..CloneArgs::default()
    };
    // A sibling has the one that we have.
    if cradle.flags & libc::CLONE_PARENT == 0 {
        args.exit_signal = libc::SIGCHLD as u64;
    }
    if let Some(leaves) = cradle.leaves {
        args.flags |= libc::CLONE_CHILD_CLEARTID as u64;
        args.child_tid = leaves.as_ptr().addr() as u64;
    }
    if let Some(cgroup) = cradle.cgroup {
        args.flags |= INTO_CGROUP;
        args.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    }
    let call = [(&raw const args).addr(), size_of::<CloneArgs>()];
    // SAFETY: `args` is a whole `clone_args` of the size passed, its pointers are live, and the
    // stack is kept by the caller until the child is gone from it.
    let answer = unsafe { branch(libc::SYS_clone3, call, body as usize, context.addr()) };
    pid_of(answer).map(drop)
}

/// Makes a child that runs `body(context)` while this thread sleeps, in the same namespaces. Returns
/// also what it ran on, to be let go of when nobody waits.
///
/// By the older call, which takes no pointer to flags and so can be let through by a filter that
/// forbids new namespaces.
///
/// # Safety
/// As for [`clone`].
pub(crate) unsafe fn vfork<T>(
    body: extern "C" fn(*const T) -> !,
    context: *const T,
) -> io::Result<(Pid, Stack)> {
    let stack = Stack::new()?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let top = stack.top();
    let call = [flags.unsigned_abs() as usize, top];
    // SAFETY: this thread sleeps until the child has left the stack, which lives until then.
    let answer = unsafe { branch(libc::SYS_clone, call, body as usize, context.addr()) };
    Ok((pid_of(answer)?, stack))
}

/// Makes a child that runs `body(context)` on `stack`, in the same namespaces, with the same memory
/// and the same descriptors.
///
/// Allocates nothing, so it may be called by such a child.
///
/// # Safety
/// As for [`clone`]; `stack` must stay valid as long as `context`. Where the caller does nothing more
/// than to end its process, the child has its memory for itself, and `body` may do what it likes.
pub(crate) unsafe fn branch_off<T>(
    stack: &Stack,
    body: extern "C" fn(*const T) -> !,
    context: *const T,
) -> Result<i32, Errno> {
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
    let top = stack.top();
    let call = [flags.unsigned_abs() as usize, top];
    // SAFETY: the caller vouches for the stack and the context.
    let answer = unsafe { branch(libc::SYS_clone, call, body as usize, context.addr()) };
    i32::try_from(check(answer)?).map_err(|_| Errno::INVAL)
}

fn pid_of(answer: isize) -> Result<Pid, Errno> {
    i32::try_from(check(answer)?).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)
}

/// Makes the call `number`, after which there are two of us: the child runs `body(context)`.
///
/// # Safety
/// As [`clone`]; `body` is the address of its function, `context` of its argument.
#[cfg(target_arch = "x86_64")]
unsafe fn branch(number: libc::c_long, call: [usize; 2], body: usize, context: usize) -> isize {
    let answer: isize;
    // SAFETY: the child never leaves the `call`, so the parent's frame is its own again after the
    // system call; the kernel clobbers only rax, rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r9",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") number as isize => answer,
            in("rdi") call[0], in("rsi") call[1], in("rdx") 0, in("r10") 0,
            in("r8") body, in("r9") context,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Makes the call `number`, after which there are two of us: the child runs `body(context)`.
///
/// # Safety
/// As [`clone`]; `body` is the address of its function, `context` of its argument.
#[cfg(target_arch = "aarch64")]
unsafe fn branch(number: libc::c_long, call: [usize; 2], body: usize, context: usize) -> isize {
    let answer: isize;
    // SAFETY: the child never leaves the `blr`, so the parent's frame is its own again after the
    // system call; the kernel clobbers only x0.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") number,
            inlateout("x0") call[0] as isize => answer,
            in("x1") call[1], in("x2") 0, in("x3") 0, in("x4") 0,
            in("x9") body, in("x10") context,
            options(nostack),
        );
    }
    answer
}
