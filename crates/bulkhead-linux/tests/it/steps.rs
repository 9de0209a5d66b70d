//! The steps that build a sandbox's tree, done by the kernel.

use std::ffi::CString;
use std::fs;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use bulkhead_linux::identity::{Opener, Translation};
use bulkhead_linux::mounts::{Attributes, look, translated};
use bulkhead_linux::steps::{Kind, Reach, Step};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

use super::nursery::{bind, dir, fails, inside, link, path};

/// A directory of the host's with a file in it.
fn shared() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "host\n").unwrap();
    directory
}

#[test]
fn a_sandbox_sees_what_was_put_there_and_no_more() {
    let steps = vec![
        dir(c"new/etc"),
        Step::File { path: c"new/etc/motd".into(), content: b"hello\n".as_slice().into() },
    ];
    let script = "ls -1 /; cat /etc/motd; id -u; uname -n; ls -A /proc/self/cwd/.. | head -1
        cut -d: -f1 /proc/net/dev | tail -n +3";
    let expected = "bin\ndev\netc\nlib\nlib64\nproc\nusr\nhello\n1000\nroom\nbin\n    lo\n";
    assert_eq!(inside(steps, script).unwrap(), expected);
}

#[test]
fn loopback_is_up() {
    let script = "grep -c 127.0.0.1 /proc/net/fib_trie";
    assert_ne!(inside(vec![], script).unwrap(), "0\n");
}

/// What can be done with a shared directory: write, run, and what its mount says.
fn tried(attributes: Attributes) -> String {
    let directory = shared();
    let share = bind(directory.path(), c"new/share", attributes);
    let script = "cd /share; cat file; (echo inside > file) 2>/dev/null && echo written
        cp /bin/true program 2>/dev/null && ./program && echo run
        grep ' /share ' /proc/mounts | cut -d' ' -f4 | tr , '\\n' | grep -E '^(ro|rw|nosuid|nodev|noexec)$'";
    inside(vec![dir(c"new/share"), share], script).unwrap()
}

#[test]
fn a_share_allows_what_its_attributes_say() {
    let read_write = "host\nwritten\nrun\nrw\nnosuid\nnodev\n";
    assert_eq!(tried(Attributes::ReadWrite), read_write);
    assert_eq!(tried(Attributes::Reopened), read_write);
    assert_eq!(tried(Attributes::ReadOnly), "host\nro\nnosuid\nnodev\n");
    assert_eq!(tried(Attributes::Inert), "host\nro\nnosuid\nnodev\nnoexec\n");
}

#[test]
fn what_is_inert_cannot_be_run() {
    let run = |attributes| {
        let share = bind(Path::new("/usr/bin"), c"new/share", attributes);
        inside(vec![dir(c"new/share"), share], "/share/true 2>/dev/null; echo $?").unwrap()
    };
    assert_eq!(run(Attributes::ReadOnly), "0\n");
    assert_eq!(run(Attributes::Inert), "126\n");
}

#[test]
fn a_part_of_a_read_only_share_can_be_reopened() {
    let directory = shared();
    fs::create_dir(directory.path().join("part")).unwrap();
    let part = CString::new("new/share/part").unwrap();
    let steps = vec![
        dir(c"new/share"),
        bind(directory.path(), c"new/share", Attributes::ReadOnly),
        Step::Bind {
            source: part.clone(),
            expect: None,
            target: part.as_c_str().into(),
            attributes: Attributes::Reopened,
        },
    ];
    let script =
        "cd /share; (echo > file) 2>/dev/null || echo no; echo yes > part/file; cat part/file";
    assert_eq!(inside(steps, script).unwrap(), "no\nyes\n");
}

#[test]
fn a_sealed_root_is_read_only_and_its_mounts_are_not() {
    let directory = shared();
    let steps = vec![
        dir(c"new/share"),
        bind(directory.path(), c"new/share", Attributes::ReadWrite),
        Step::Restrict {
            target: c"new".to_owned(),
            attributes: Attributes::ReadOnly,
            reach: Reach::Alone,
        },
    ];
    let script = "mkdir /made 2>&1; echo ok > /share/file; cat /share/file";
    let expected = "mkdir: cannot create directory '/made': Read-only file system\nok\n";
    assert_eq!(inside(steps, script).unwrap(), expected);
}

#[test]
fn an_overlay_keeps_changes_away_from_what_it_shows() {
    let directory = shared();
    let steps = vec![
        dir(c"lower"),
        bind(directory.path(), c"lower", Attributes::ReadOnly),
        dir(c"upper"),
        dir(c"work"),
        dir(c"new/share"),
        Step::Overlay {
            lower: vec![c"lower".to_owned()],
            upper: c"upper".to_owned(),
            work: c"work".to_owned(),
            target: c"new/share".into(),
        },
    ];
    let script =
        "cd /share; cat file; echo inside > file; rm -f new; echo new > new; cat file new";
    assert_eq!(inside(steps, script).unwrap(), "host\ninside\nnew\n");
    assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "host\n");
    assert!(!directory.path().join("new").exists());
}

#[test]
fn terminals_are_the_sandboxs_own() {
    let steps = vec![
        dir(c"new/dev/pts"),
        Step::Mount { kind: Kind::Pts, target: c"new/dev/pts".into() },
        link(c"new/dev/ptmx", c"pts/ptmx"),
    ];
    let script = "ls /dev/pts; script -qec 'tty' /dev/null < /dev/null | tr -d '\\r'";
    assert_eq!(inside(steps, script).unwrap(), "ptmx\n/dev/pts/0\n");
}

#[test]
fn a_source_that_was_swapped_is_refused() {
    let directory = shared();
    let meant = look(&path("", directory.path())).unwrap().inode;
    let other = shared();
    let steps = vec![
        dir(c"new/share"),
        Step::Bind {
            source: path("", other.path()),
            expect: Some(meant),
            target: c"new/share".into(),
            attributes: Attributes::ReadOnly,
        },
    ];
    let action = format!("show `{}` at `new/share` ReadOnly", other.path().display());
    assert_eq!(fails(steps), (action, Some(libc::ESTALE)));
}

#[test]
fn a_source_that_has_become_a_link_is_not_followed() {
    let (directory, secret) = (shared(), shared());
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    let step = bind(&source, c"new/share", Attributes::ReadOnly);
    fs::remove_dir(&source).unwrap();
    symlink(secret.path(), &source).unwrap();
    let action = format!("show `{}` at `new/share` ReadOnly", source.display());
    let (failed, errno) = fails(vec![dir(c"new/share"), step]);
    assert_eq!(failed, action);
    // Some kernels do not let a link be mounted at all.
    assert!(matches!(errno, Some(libc::ESTALE | libc::EINVAL)), "{errno:?}");
}

#[test]
fn no_target_is_reached_through_a_link_or_upwards() {
    let away = || link(c"new/away", c"/old");
    let share = || bind(Path::new("/usr"), c"new/away/tmp", Attributes::ReadOnly);
    let show = "show `/usr` at `new/away/tmp` ReadOnly".to_owned();
    assert_eq!(fails(vec![away(), share()]), (show, Some(libc::ELOOP)));
    let make = "make the directory `new/away/tmp` 755".to_owned();
    assert_eq!(fails(vec![away(), dir(c"new/away/tmp")]), (make, Some(libc::ELOOP)));
    let make = "make the directory `new/away` 755".to_owned();
    assert_eq!(fails(vec![away(), dir(c"new/away")]), (make, Some(libc::ELOOP)));
    let file = Step::File { path: c"new/away".into(), content: Box::default() };
    let make = "make the file `new/away` (0 bytes)".to_owned();
    assert_eq!(fails(vec![away(), file]), (make, Some(libc::ELOOP)));
    let make = "make the directory `../away/x` 755".to_owned();
    assert_eq!(fails(vec![dir(c"../away/x")]), (make, Some(libc::EXDEV)));
}

#[test]
fn a_translated_share_belongs_to_its_owner_on_both_sides() {
    let directory = shared();
    let here = path("", directory.path());
    let inode = look(&here).unwrap().inode;
    let (owner, outside) = ((4321, 8765), 0);
    let made = Translation::make(owner, outside, Opener::Themselves);
    if !rustix::process::geteuid().is_root() {
        // Only root may name users that are not itself.
        assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EPERM));
        return;
    }
    for path in [directory.path().to_owned(), directory.path().join("file")] {
        chown(path, Some(owner.0), Some(owner.1)).unwrap();
    }
    let made = made.unwrap();
    let tree = translated(&here, inode, Attributes::ReadWrite, made.namespace()).unwrap();
    // The tree comes as in life: with the byte that the child waits for.
    let (orders, theirs) = UnixStream::pair().unwrap();
    let descriptors = [tree.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(&orders, &[IoSlice::new(b".")], &mut ancillary, SendFlags::empty()).unwrap();
    let steps = vec![
        dir(c"new/share"),
        Step::Receive { orders: theirs.as_raw_fd() },
        Step::Attach { tree: 0, target: c"new/share".into() },
    ];
    let script = "cd /share; stat -c '%u %g' . file; echo > made; stat -c '%u %g' made";
    assert_eq!(inside(steps, script).unwrap(), "1000 1000\n1000 1000\n1000 1000\n");
    let made = fs::metadata(directory.path().join("made")).unwrap();
    assert_eq!((made.uid(), made.gid()), owner);

    let other = shared();
    let made = Translation::make(owner, outside, Opener::Themselves).unwrap();
    let other = path("", other.path());
    let swapped = translated(&other, inode, Attributes::ReadWrite, made.namespace());
    assert_eq!(swapped.unwrap_err().raw_os_error(), Some(libc::ESTALE));
}
