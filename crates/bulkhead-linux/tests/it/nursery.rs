//! A small sandbox to try steps in, with a shell as its guest.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use bulkhead_linux::birth::{By, Embryo, Newborn, StepFailed, map_line};
use bulkhead_linux::midwife::{Midwife, Network};
use bulkhead_linux::mounts::{Attributes, look};
use bulkhead_linux::steps::{Groups, Kind, Step};

/// Who programs are inside.
const INSIDE: u32 = 1000;

/// A shell whose script and output are on descriptor 3.
const GUEST: &str = "#include <unistd.h>
int main(void) {
    for (int stream = 0; stream < 3; stream++) dup2(3, stream);
    close(3);
    return execl(\"/bin/sh\", \"sh\", (char *)0);
}";

pub(super) fn guest() -> &'static File {
    static BUILT: OnceLock<File> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("guest.c"), GUEST).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the tests need a guest of their own")]
        let mut gcc = Command::new("gcc");
        gcc.args(["-o", "guest", "guest.c"]).current_dir(directory.path());
        assert!(gcc.status().unwrap().success());
        File::open(directory.path().join("guest")).unwrap()
    })
}

/// A path as steps have it.
pub(super) fn path(base: &str, path: &Path) -> CString {
    CString::new([base.as_bytes(), path.as_os_str().as_bytes()].concat()).unwrap()
}

pub(super) fn dir(path: &CStr) -> Step {
    Step::Dir { path: path.into(), mode: 0o755 }
}

pub(super) fn link(path: &CStr, to: &CStr) -> Step {
    Step::Link { path: path.into(), to: to.to_owned() }
}

/// Shows a tree of the host, which must not have been swapped.
pub(super) fn bind(source: &Path, target: &CStr, attributes: Attributes) -> Step {
    Step::Bind {
        source: path("", source),
        expect: Some(look(&path("", source)).unwrap().inode),
        target: target.into(),
        attributes,
    }
}

/// The steps before those of the test: programs of the host, `/proc`, and a null device.
fn first() -> Vec<Step> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    vec![
        Step::Session,
        Step::MapSelf { uid: map_line(INSIDE, uid), gid: map_line(INSIDE, gid) },
        Step::Become { id: INSIDE, groups: Groups::Kept },
        Step::Private,
        Step::Base { options: c"size=1048576,nr_inodes=200,mode=0755".to_owned() },
        dir(c"root"),
        dir(c"new"),
        Step::Bind {
            source: c"root".to_owned(),
            expect: None,
            target: c"new".into(),
            attributes: Attributes::ReadWrite,
        },
        dir(c"new/usr"),
        bind(Path::new("/usr"), c"new/usr", Attributes::ReadOnly),
        link(c"new/bin", c"usr/bin"),
        link(c"new/lib", c"usr/lib"),
        link(c"new/lib64", c"usr/lib64"),
        dir(c"new/proc"),
        Step::Mount { kind: Kind::Proc, target: c"new/proc".into() },
        dir(c"new/dev"),
        Step::File { path: c"new/dev/null".into(), content: Box::default() },
        bind(Path::new("/dev/null"), c"new/dev/null", Attributes::Device),
    ]
}

/// The child of `embryo`, when it is there.
pub(super) fn born(embryo: Embryo<'_>, network: Network) -> Newborn {
    let midwife = Midwife::call(network).unwrap();
    let expected = embryo.expect(By::Midwife(midwife)).unwrap();
    let mut newborn = expected.born().unwrap();
    newborn.switch_loopback_on().unwrap();
    newborn
}

/// A sandbox, and the stream to its shell.
pub(super) struct Room {
    pub(super) newborn: Newborn,
    stream: UnixStream,
}

impl Room {
    /// A sandbox with these steps among others.
    pub(super) fn with(steps: Vec<Step>) -> Self {
        Self::networked(steps, None)
    }

    /// A sandbox with these steps among others, and one in its own network.
    pub(super) fn networked(steps: Vec<Step>, step: Option<Step>) -> Self {
        let name = [Step::Hostname(c"room".to_owned())];
        let last = [Step::Enter, Step::Capabilities];
        let steps = first().into_iter().chain(steps).chain(name).chain(step).chain(last);
        Self::bear_in(Network::Own, steps.collect(), guest())
    }

    /// A sandbox that has made no network for itself.
    pub(super) fn on_the_hosts_network() -> Self {
        let last = [Step::Enter, Step::Capabilities];
        Self::bear(first().into_iter().chain(last).collect(), guest())
    }

    /// A child that does these steps alone.
    pub(super) fn bear(steps: Vec<Step>, guest: &File) -> Self {
        Self::bear_in(Network::Host, steps, guest)
    }

    fn bear_in(network: Network, mut steps: Vec<Step>, guest: &File) -> Self {
        let (stream, theirs) = UnixStream::pair().unwrap();
        // A test that waits for ever is one that fails.
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let (mut ready, wait) = UnixStream::pair().unwrap();
        // Doors are opened when loopback is on.
        let orders = wait.as_raw_fd();
        steps.insert(0, Step::Receive { orders });
        let named = steps.iter().filter_map(|it| {
            if let Step::Receive { orders: it } | Step::Doors { to: it, .. } = it {
                Some(*it)
            } else {
                None
            }
        });
        let keep = named.chain([theirs.as_raw_fd()]).collect();
        steps.push(Step::Descriptors { control: theirs.as_raw_fd() });
        let guest = Some(guest.as_raw_fd());
        let embryo = Embryo { steps, guest, keep, cgroup: None, map: None };
        let newborn = born(embryo, network);
        // A child that has failed does not listen.
        ready.write_all(b".").unwrap_or_default();
        Self { newborn, stream }
    }

    /// Has the shell read `script`, without an end.
    pub(super) fn say(&mut self, script: &str) {
        // A child that has failed does not listen; `end` tells why.
        self.stream.write_all(script.as_bytes()).unwrap_or_default();
    }

    /// The next bytes that the shell or one of its children prints.
    pub(super) fn hear(&mut self, count: usize) -> String {
        let mut heard = vec![0; count];
        self.stream.read_exact(&mut heard).unwrap();
        String::from_utf8(heard).unwrap()
    }

    /// Drops the sandbox, and returns what is printed until nobody is left to print.
    pub(super) fn drop_and_hear(self) -> String {
        let Self { newborn, mut stream } = self;
        drop(newborn);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Lets the shell come to its end, and returns what it printed, or why it never began.
    pub(super) fn end(mut self) -> Result<String, StepFailed> {
        self.stream.shutdown(Shutdown::Write).unwrap_or_default();
        let mut printed = String::new();
        let heard = self.stream.read_to_string(&mut printed);
        self.newborn.reap().unwrap();
        if let Some(failed) = self.newborn.failure() {
            return Err(failed);
        }
        heard.unwrap();
        Ok(printed)
    }
}

/// What `script` prints in a sandbox with these steps, or which step failed.
pub(super) fn inside(steps: Vec<Step>, script: &str) -> Result<String, StepFailed> {
    let mut room = Room::with(steps);
    room.say(script);
    room.end()
}

/// Which step of a sandbox fails, and how.
pub(super) fn fails(steps: Vec<Step>) -> (String, Option<i32>) {
    let failed = inside(steps, "").unwrap_err();
    (failed.action, failed.source.raw_os_error())
}
