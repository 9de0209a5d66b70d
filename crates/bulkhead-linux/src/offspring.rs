//! Whom a process has made that still lives.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
};

use rustix::process::Pid;

/// What the kernel tells of the children and threads of one process, ready to be read: to find it
/// takes ten times as long as to read it.
#[derive(Debug)]
pub(crate) struct Offspring {
    threads: File,
    children: File,
}

impl Offspring {
    pub(crate) fn of(pid: Pid) -> io::Result<Self> {
        let pid = pid.as_raw_nonzero();
        let threads = format!("/proc/{pid}/task");
        let children = File::open(format!("{threads}/{pid}/children"))?;
        Ok(Self { threads: File::open(threads)?, children })
    }

    /// Whether it has neither children nor threads besides its first.
    ///
    /// What cannot be read counts as somebody.
    pub(crate) fn is_none(&self) -> bool {
        let childless = self.children.read_at(&mut [0], 0).is_ok_and(|it| it == 0);
        childless && self.threads.metadata().is_ok_and(|it| is_one(&it))
    }
}

/// Whether a process has one thread only, by its directory of threads in `/proc`.
pub(crate) fn has_one_thread(threads: &str) -> bool {
    std::fs::metadata(threads).is_ok_and(|it| is_one(&it))
}

fn is_one(threads: &std::fs::Metadata) -> bool {
    // Two links are the directory's own.
    threads.nlink() == 3
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        thread,
    };

    use rustix::process::{Pid, getpid};

    use super::{Offspring, has_one_thread};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any process will do")]
    fn children_count_until_they_are_waited_for() {
        // The child ends with its input, which is ours.
        let mut parent = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & wait"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let offspring = Offspring::of(Pid::from_child(&parent)).unwrap();
        while offspring.is_none() {
            thread::yield_now();
        }
        parent.kill().unwrap();
        // Killed, it has handed them on; it is still there.
        while !offspring.is_none() {
            thread::yield_now();
        }
        parent.wait().unwrap();
        assert!(!offspring.is_none(), "nobody knows of whom is gone");
    }

    #[test]
    fn threads_count() {
        let beside = thread::spawn(|| Offspring::of(getpid()).unwrap().is_none());
        assert!(!beside.join().unwrap());
        assert!(!has_one_thread("/proc/self/task"), "tests run on threads");
    }
}
