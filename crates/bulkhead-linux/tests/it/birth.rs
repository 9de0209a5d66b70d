//! A child with new namespaces, from its birth to its end.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use bulkhead_linux::birth::{By, Embryo};
use bulkhead_linux::memfd::Unsealed;
use bulkhead_linux::midwife::{Midwife, Network};
use bulkhead_linux::steps::Step;
use bulkhead_linux::together::together;
use rustix::io::fcntl_dupfd_cloexec;

use super::nursery::{Room, born, guest, inside};
use super::role::play;

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

#[test]
fn every_namespace_is_the_sandboxs_own() {
    let script =
        format!("cd /proc/self/ns; for it in {}; do readlink $it; done", NAMESPACES.join(" "));
    let theirs = inside(vec![], &script).unwrap();
    for (name, theirs) in NAMESPACES.into_iter().zip(theirs.lines()) {
        let ours = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert!(theirs.starts_with(&format!("{name}:[")), "{theirs}");
        assert_ne!(ours.to_str().unwrap(), theirs);
    }
    assert_eq!(theirs.lines().count(), NAMESPACES.len());
}

#[test]
fn the_hosts_network_is_shared_if_that_is_asked_for() {
    let mut room = Room::on_the_hosts_network();
    room.say("readlink /proc/self/ns/net\n");
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(room.end().unwrap().trim(), ours.to_str().unwrap());
}

#[test]
fn the_guest_is_the_first_process_and_starts_with_nothing() {
    let script = "echo $$; tr '\\0' '\\n' < /proc/1/environ; echo /proc/[0-9]*
        for it in /proc/1/fd/*; do if [ -e $it ]; then echo ${it##*/}; fi; done
        grep -E 'SigBlk|Cap(Bnd|Prm)' /proc/self/status | cut -f2";
    let none = "0000000000000000\n".repeat(3);
    assert_eq!(inside(vec![], script).unwrap(), format!("1\n/proc/1\n0\n1\n2\n{none}"));
}

#[test]
fn nothing_survives_the_newborn() {
    let mut room = Room::with(vec![]);
    room.say(
        "trap '' TERM HUP INT; sleep 1000 & (setsid sleep 1000 &); kill -STOP $! ; echo up\n",
    );
    assert_eq!(room.hear(3), "up\n");
    // Whoever lives holds the stream open.
    assert_eq!(room.drop_and_hear(), "");
}

#[test]
fn a_newborn_that_waits_for_its_parent_can_be_killed_and_reaped() {
    let (wait, _go) = UnixStream::pair().unwrap();
    let steps = vec![Step::Receive { orders: wait.as_raw_fd() }];
    let mut room = Room::bear(steps, &File::open("/dev/null").unwrap());
    room.newborn.kill().unwrap();
    room.newborn.reap().unwrap();
    room.newborn.reap().unwrap();
    room.newborn.kill().unwrap();
    let gone = format!("/proc/{}", room.newborn.pid().as_raw_nonzero());
    assert!(!fs::exists(gone).unwrap());
    assert!(room.newborn.failure().is_none());
}

#[test]
fn a_parent_that_goes_away_ends_the_birth() {
    let (wait, go) = UnixStream::pair().unwrap();
    // The child has a copy of every descriptor; only without this one can the stream end.
    drop(go);
    let steps = vec![Step::Session, Step::Receive { orders: wait.as_raw_fd() }];
    let failed = Room::bear(steps, &File::open("/dev/null").unwrap()).end().unwrap_err();
    assert_eq!(
        (failed.action.as_str(), failed.source.raw_os_error()),
        ("wait for the next list", Some(libc::EPIPE))
    );
}

/// Processes of which this one is the parent, in `/proc`.
fn children() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().path());
    // One that ends meanwhile has none.
    let of = |thread: std::path::PathBuf| fs::read_to_string(thread.join("children"));
    let all = threads.map(of).map(Result::unwrap_or_default).collect::<String>();
    all.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_midwife_that_is_not_needed_goes() {
    for network in [Network::Own, Network::Host] {
        let midwife = Midwife::call(network).unwrap();
        let pid = midwife.pid().as_raw_nonzero().to_string();
        assert!(children().contains(&pid));
        drop(midwife);
        assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    }
}

/// Who may bear a child.
fn bearers() -> [By; 2] {
    [
        By::Midwife(Midwife::call(Network::Own).unwrap()),
        By::Nobody { network: Network::Own, when: None },
    ]
}

#[test]
fn a_child_that_nobody_waits_for_goes() {
    let (wait, _go) = UnixStream::pair().unwrap();
    let before = children();
    for by in (0..20).flat_map(|_| bearers()) {
        let steps = vec![Step::Receive { orders: wait.as_raw_fd() }];
        let keep = vec![wait.as_raw_fd()];
        let embryo = Embryo { steps, guest: None, keep, cgroup: None, map: None };
        drop(embryo.expect(by).unwrap());
    }
    let left = || children().into_iter().filter(|it| !before.contains(it)).count();
    // Other tests have children, too, for a while.
    let patience = Instant::now() + Duration::from_secs(20);
    while left() != 0 {
        assert!(Instant::now() < patience, "{} are left", left());
        std::thread::yield_now();
    }
}

#[test]
fn a_child_keeps_nothing_open_that_it_does_not_need() {
    for by in bearers() {
        let (wait, _go) = UnixStream::pair().unwrap();
        let steps = vec![Step::Receive { orders: wait.as_raw_fd() }];
        let keep = vec![wait.as_raw_fd()];
        let embryo = Embryo { steps, guest: None, keep, cgroup: None, map: None };
        let (mut before, theirs_before) = UnixStream::pair().unwrap();
        let expected = embryo.expect(by).unwrap();
        // Opened while the child is being born, and closed again: whoever reads sees the end.
        let (mut meanwhile, theirs_meanwhile) = UnixStream::pair().unwrap();
        let newborn = expected.born().unwrap();
        drop((theirs_before, theirs_meanwhile));
        for ours in [&mut before, &mut meanwhile] {
            ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        }
        drop(newborn);
    }
}

#[test]
fn a_birth_that_the_kernel_refuses_is_told() {
    let directory = File::open("/").unwrap();
    let embryo = || Embryo {
        steps: vec![],
        guest: None,
        keep: vec![],
        cgroup: Some(directory.as_fd()),
        map: None,
    };
    let [midwife, nobody] = bearers();
    let failed = embryo().expect(midwife).unwrap().born().unwrap_err();
    assert_eq!(
        (failed.action.as_str(), failed.source.raw_os_error()),
        ("make new namespaces", Some(libc::EBADF))
    );
    let failed = embryo().expect(nobody).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(libc::EBADF));
}

#[test]
fn a_guest_that_is_no_program_is_told() {
    let mut text = tempfile::tempfile().unwrap();
    text.write_all(b"no program").unwrap();
    let failed = Room::bear(vec![], &text).end().unwrap_err();
    assert_eq!(
        (failed.action.as_str(), failed.source.raw_os_error()),
        ("start the guest", Some(libc::EACCES))
    );
}

#[test]
fn a_sealed_copy_in_memory_is_run() {
    let sealed = Unsealed::create().unwrap().seal(&fs::read("/bin/true").unwrap()).unwrap();
    let printed = Room::bear(vec![], &File::from(sealed)).end().unwrap();
    assert_eq!(printed, "");
}

/// Bears a guest with the descriptors of it and of the control stream at the first free numbers
/// from these on, and returns what its shell says.
fn born_from(guest: &OwnedFd, guest_at: RawFd, control_at: RawFd) -> String {
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let far = fcntl_dupfd_cloexec(theirs, 20).unwrap();
    stream = fcntl_dupfd_cloexec(stream, 20).unwrap().into();
    let control = fcntl_dupfd_cloexec(&far, control_at).unwrap();
    let program = fcntl_dupfd_cloexec(guest, guest_at).unwrap();
    drop(far);
    let (control_is, guest_is) = (control.as_raw_fd(), program.as_raw_fd());
    let embryo = Embryo {
        steps: vec![Step::Descriptors { control: control_is }],
        guest: Some(guest_is),
        keep: vec![control_is],
        cgroup: None,
        map: None,
    };
    let newborn = born(embryo, Network::Host);
    drop((control, program));
    stream.write_all(b"echo born").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    // A stream that the child has lost is reset.
    let heard = stream.read_to_string(&mut said).map_err(|it| it.kind());
    drop(newborn);
    format!("guest {guest_is}, control {control_is}: {heard:?} {}\n", said.trim())
}

/// Tries every order of the two about 3, where the control stream is put.
pub(super) fn bear_from_any_descriptor() -> String {
    let guest = fcntl_dupfd_cloexec(guest(), 20).unwrap();
    // SAFETY: this process is a fork of the harness, which it does not return to.
    unsafe { libc::syscall(libc::SYS_close_range, 3, 19, 0) };
    [(3, 10), (10, 3), (3, 4), (4, 3), (10, 11)]
        .map(|(guest_at, control_at)| born_from(&guest, guest_at, control_at))
        .concat()
}

#[test]
fn a_guest_is_born_whatever_the_numbers_of_its_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let expected = "guest 3, control 10: Ok(5) born
guest 10, control 3: Ok(5) born
guest 3, control 4: Ok(5) born
guest 4, control 3: Ok(5) born
guest 10, control 11: Ok(5) born
";
    assert_eq!(play("bear from any descriptor", directory.path()), expected);
}

#[test]
fn a_child_that_is_one_of_many_waits_for_the_others() {
    let (unready, all_ready) = together().unwrap();
    let by = By::Nobody { network: Network::Own, when: Some(all_ready.number()) };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let steps = vec![Step::Descriptors { control: theirs.as_raw_fd() }];
    let keep = vec![theirs.as_raw_fd()];
    let null = File::open("/dev/null").unwrap();
    let embryo = Embryo { steps, guest: Some(null.as_raw_fd()), keep, cgroup: None, map: None };
    let newborn = embryo.expect(by).unwrap().born().unwrap();
    drop(theirs);
    let namespace = |name: &str| {
        fs::read_link(format!("/proc/{}/ns/{name}", newborn.pid().as_raw_nonzero())).unwrap()
    };
    // Whoever has not begun is still where its parent is.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(namespace("mnt"), fs::read_link("/proc/self/ns/mnt").unwrap());
    assert!(newborn.failure().is_none());
    drop(unready);
    // What it should become is no program, and it comes as far as to find that out.
    (&ours).read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(newborn.failure().unwrap().action, "start the guest");
}
