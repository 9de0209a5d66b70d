//! Processes for the tests: this test program again, in a role of its own.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::super::{Cgroup, Delegation, Entry, Feature, Limits, Version, place};

/// A child of the test, which is killed with it.
#[derive(Debug)]
pub(super) struct Child(Pid);

impl Child {
    /// Starts `role` in the cgroup, the way a launcher does: by `CLONE_INTO_CGROUP`, and with a
    /// `0` into each `tasks`.
    pub(super) fn spawn(group: &Cgroup, role: &str) -> Child {
        Child::enter(&group.entry(), role)
    }

    /// Starts `role` where we are.
    pub(super) fn outside(role: &str) -> Child {
        Child::enter(&Entry { v2: None, tasks: Vec::new() }, role)
    }

    pub(super) fn enter(entry: &Entry<'_>, role: &str) -> Child {
        let program = c"/proc/self/exe";
        let arguments = [
            program,
            c"--exact",
            c"cgroup::tests::child::a_role",
            c"--ignored",
            c"--nocapture",
            c"--test-threads=1",
        ];
        let role = CString::new(format!("BULKHEAD_TEST_ROLE={role}")).unwrap();
        let arguments = pointers(&arguments);
        let environment = pointers(&[role.as_c_str()]);
        let silence = File::options().write(true).open("/dev/null").unwrap();

        // The last copy of the far end is closed by the exec: then the child has joined.
        let (near, far) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();

        if let Some(pid) = clone_into(entry.v2) {
            drop(far);
            rustix::io::read(&near, &mut [0]).unwrap();
            return Child(pid);
        }
        // Between clone and exec of a program with threads: system calls only.
        let joined = entry.tasks.iter().all(|it| rustix::io::write(it, b"0").is_ok());
        // SAFETY: 1 is an open descriptor of this process, or it becomes one.
        let silent = unsafe { libc::dup2(silence.as_fd().as_raw_fd(), 1) };
        if joined && silent == 1 {
            // SAFETY: both lists end with a null and point to strings that live.
            unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        }
        // SAFETY: it does not return, and runs nothing of this process.
        unsafe { libc::_exit(97) }
    }

    pub(super) fn pid(&self) -> Pid {
        self.0
    }

    pub(super) fn kill(&self) {
        rustix::process::kill_process(self.0, Signal::KILL).unwrap();
    }

    pub(super) fn wait(self) -> WaitStatus {
        let (_, status) =
            rustix::process::waitpid(Some(self.0), WaitOptions::empty()).unwrap().unwrap();
        std::mem::forget(self);
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        rustix::process::waitpid(Some(self.0), WaitOptions::empty()).unwrap();
    }
}

fn pointers(strings: &[&std::ffi::CStr]) -> Vec<*const libc::c_char> {
    strings.iter().map(|it| it.as_ptr()).chain([std::ptr::null()]).collect()
}

/// The constant of `libc` overflows.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks, into the cgroup if there is one. `None` in the child.
fn clone_into(cgroup: Option<BorrowedFd<'_>>) -> Option<Pid> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = u64::try_from(libc::SIGCHLD).unwrap();
    if let Some(fd) = cgroup {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = u64::try_from(fd.as_raw_fd()).unwrap();
    }
    // SAFETY: the structure has the size that is passed; without CLONE_VM this is a fork, and
    // the child makes nothing but system calls until it executes another program.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    assert!(pid >= 0, "clone3: {}", std::io::Error::last_os_error());
    Pid::from_raw(i32::try_from(pid).unwrap())
}

/// What the re-executed program does; not a test by itself.
#[test]
#[ignore = "a role in other tests, played in a process of its own"]
fn a_role() {
    let role = std::env::var_os("BULKHEAD_TEST_ROLE").unwrap();
    let role = role.to_str().unwrap();
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["sleep"] => sleep(),
        ["spin"] => loop {
            std::hint::black_box(());
        },
        ["hog", mebibytes] => {
            let bytes = mebibytes.parse::<usize>().unwrap() << 20;
            std::hint::black_box(vec![1_u8; bytes]);
        }
        ["fork", count] => {
            for _ in 0..count.parse().unwrap() {
                fork(|| sleep());
            }
        }
        ["bomb"] => bomb(),
        ["brood", count] => {
            for number in 0..count.parse().unwrap() {
                fork(move || brooding(number));
            }
            sleep()
        }
        ["own", name, id] => {
            let group = place::probe(name).create(id, &Limits::default()).unwrap();
            let _child = Child::spawn(&group, "sleep");
            sleep()
        }
        ["delegated", name, base] => delegated(name, base),
        ["alone", name] => alone(name),
        _ => panic!("no such role: {role}"),
    }
}

/// Waits for a signal, that of death.
fn sleep() -> ! {
    loop {
        std::thread::sleep(Duration::from_hours(1));
    }
}

/// Forks once; a refusal is fine.
fn fork(then: impl Fn()) {
    if clone_or_refused() == Some(0) {
        then();
        // SAFETY: it does not return, and runs nothing of this process.
        unsafe { libc::_exit(0) }
    }
}

fn clone_or_refused() -> Option<i32> {
    // SAFETY: the child only sleeps, forks or makes system calls.
    let pid = unsafe { libc::fork() };
    (pid >= 0).then_some(pid)
}

/// Forks as fast as it may, and so do its children.
fn bomb() -> ! {
    loop {
        if clone_or_refused() != Some(0) {
            // The dead would count as processes too.
            while matches!(rustix::process::waitpid(None, WaitOptions::NOHANG), Ok(Some(_))) {}
        }
    }
}

/// Every third is a daemon: a session of its own, and its parent gone. Every third is deaf, the
/// others are stopped.
fn brooding(number: u32) {
    match number % 3 {
        0 => {
            // SAFETY: changes nothing but the session of this process.
            unsafe { libc::setsid() };
            if clone_or_refused() == Some(0) {
                sleep();
            }
        }
        1 => {
            // SAFETY: ignoring a signal runs no code.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            sleep()
        }
        _ => {
            // SAFETY: the signal comes to this process, and stops it.
            unsafe { libc::raise(libc::SIGSTOP) };
            sleep()
        }
    }
}

/// Becomes an ordinary user, in this thread only.
pub(super) fn become_nobody() {
    let (uid, gid) =
        (rustix::process::Uid::from_raw(65534), rustix::process::Gid::from_raw(65534));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

/// An ordinary user in a cgroup that was handed over to it.
fn delegated(name: &str, base: &str) {
    become_nobody();
    let cgroups = place::probe(name);
    let tree = cgroups.v2.as_ref().unwrap();
    assert!(tree.base.starts_with(base), "{tree:?}");
    assert_eq!(cgroups.holds(Feature::Kill), Some(Version::V2));
    let limits = match cgroups.delegation() {
        Delegation::Held => {
            Limits { memory: Some(32 << 20), cpu_millis: Some(500), processes: Some(16) }
        }
        Delegation::None => Limits::default(),
        Delegation::StepAside | Delegation::AskSystemd => panic!("{cgroups:?}"),
    };
    assert_eq!(limits == Limits::default(), tree.controllers.is_empty());
    let group = cgroups.create("a", &limits).unwrap();
    let child = Child::spawn(&group, "hog 8");
    assert_eq!(child.wait().exit_status(), Some(0));
    assert!(group.usage().cpu_time > Some(Duration::ZERO));
    drop(group);
    assert_eq!(super::left_of(&cgroups, "a"), Vec::<std::path::PathBuf>::new());
}

/// The only process in a cgroup with controllers, and no right to anything above it.
fn alone(name: &str) {
    become_nobody();
    let cgroups = place::probe(name);
    let offered = cgroups.within_reach(Feature::Memory);
    if !offered {
        assert_eq!(cgroups.delegation(), Delegation::None);
        return;
    }
    assert_eq!(
        (cgroups.delegation(), cgroups.holds(Feature::Memory)),
        (Delegation::StepAside, None)
    );
    let cgroups = cgroups.acquire(None).unwrap();
    assert_eq!(cgroups.delegation(), Delegation::Held);
    let limits = Limits { memory: Some(32 << 20), cpu_millis: Some(500), processes: Some(16) };
    let group = cgroups.create("a", &limits).unwrap();
    let child = Child::spawn(&group, "hog 64");
    assert_eq!(child.wait().terminating_signal(), Some(libc::SIGKILL));
    assert!(group.usage().oom_kills > 0);
}
