//! Files with the set-user-ID or the set-group-ID bit, which the host would heed.

use std::ffi::{CStr, CString, c_long};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use bulkhead_linux::seccomp::{Profile, filter};
use tempfile::TempDir;

use super::attempt::{Ended, attempt, call, refused};

const FCHMODAT2: c_long = 452;
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;
const CREATE: u64 = (libc::O_CREAT | libc::O_WRONLY) as u64;
const TMPFILE: u64 = (libc::O_TMPFILE | libc::O_WRONLY) as u64;

/// A directory to make files in.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A path for the kernel.
    fn name(&self, name: &str) -> CString {
        CString::new(self.path(name).as_os_str().as_bytes()).unwrap()
    }

    /// A new file, and its path for the kernel.
    fn file(&self, name: &str) -> (File, CString) {
        (File::create(self.path(name)).unwrap(), self.name(name))
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }
}

fn address(path: &CStr) -> u64 {
    path.as_ptr().addr() as u64
}

fn walled<const COUNT: usize>(number: c_long, args: [u64; COUNT]) -> Ended {
    attempt(Some(&filter(Profile::Standard)), || call(number, args))
}

fn not_permitted<const COUNT: usize>(number: c_long, args: [u64; COUNT]) {
    for profile in [Profile::Standard, Profile::Debug] {
        refused(profile, number, args, libc::EPERM);
    }
}

#[test]
fn no_mode_is_changed_to_set_id() {
    let workspace = Workspace::new();
    let (file, name) = workspace.file("file");
    let (descriptor, path) = (u64::try_from(file.as_raw_fd()).unwrap(), address(&name));
    // The kernel ignores what is above 16 bits, and so must the filter.
    for mode in [0o4755, 0o2755, 0o6755, 0o7777, 0o104_755, 0o4755 | 1 << 32] {
        #[cfg(target_arch = "x86_64")]
        not_permitted(libc::SYS_chmod, [path, mode]);
        not_permitted(libc::SYS_fchmod, [descriptor, mode]);
        not_permitted(libc::SYS_fchmodat, [HERE, path, mode]);
        not_permitted(FCHMODAT2, [HERE, path, mode, 0]);
    }
}

#[test]
fn a_refused_mode_is_not_set_and_a_sticky_one_is() {
    let workspace = Workspace::new();
    let (file, name) = workspace.file("file");
    let (descriptor, path) = (u64::try_from(file.as_raw_fd()).unwrap(), address(&name));
    assert_eq!(walled(libc::SYS_fchmodat, [HERE, path, 0o640]), Ended::Succeeded);
    assert_eq!(walled(libc::SYS_fchmodat, [HERE, path, 0o4755]), Ended::Failed(libc::EPERM));
    assert_eq!(workspace.mode("file"), 0o640);
    assert_eq!(walled(libc::SYS_fchmodat, [HERE, path, 0o1777]), Ended::Succeeded);
    assert_eq!(workspace.mode("file"), 0o1777);
    assert_eq!(walled(libc::SYS_fchmod, [descriptor, 0o1700]), Ended::Succeeded);
    assert_eq!(workspace.mode("file"), 0o1700);
}

#[test]
fn nothing_is_made_set_id() {
    let workspace = Workspace::new();
    let (directory, file, node, child) =
        (workspace.name("."), workspace.name("f"), workspace.name("n"), workspace.name("d"));
    let [directory, file, node, child] =
        [&directory, &file, &node, &child].map(|it| address(it));
    for mode in [0o4755, 0o2755, 0o6755] {
        not_permitted(libc::SYS_openat, [HERE, file, CREATE, mode]);
        not_permitted(libc::SYS_openat, [HERE, directory, TMPFILE, mode]);
        not_permitted(libc::SYS_mkdirat, [HERE, child, mode]);
        not_permitted(libc::SYS_mknodat, [HERE, node, mode, 0]);
        not_permitted(libc::SYS_mknodat, [HERE, node, mode | u64::from(libc::S_IFREG), 0]);
        #[cfg(target_arch = "x86_64")]
        {
            not_permitted(libc::SYS_open, [file, CREATE, mode]);
            not_permitted(libc::SYS_open, [directory, TMPFILE, mode]);
            not_permitted(libc::SYS_creat, [file, mode]);
            not_permitted(libc::SYS_mkdir, [child, mode]);
            not_permitted(libc::SYS_mknod, [node, mode, 0]);
        }
    }
}

#[test]
fn what_is_not_set_id_is_made() {
    let workspace = Workspace::new();
    let (directory, file, node, child) =
        (workspace.name("."), workspace.name("f"), workspace.name("n"), workspace.name("d"));
    let [directory, file, node, child] =
        [&directory, &file, &node, &child].map(|it| address(it));
    for (number, args) in [
        (libc::SYS_openat, [HERE, file, CREATE, 0o1755]),
        (libc::SYS_openat, [HERE, directory, TMPFILE, 0o600]),
        (libc::SYS_mkdirat, [HERE, child, 0o1777, 0]),
        (libc::SYS_mknodat, [HERE, node, u64::from(libc::S_IFIFO) | 0o600, 0]),
    ] {
        assert_eq!(walled(number, args), Ended::Succeeded, "call {number}");
    }
    assert_eq!(workspace.mode("f"), 0o1755);
}

#[test]
fn a_file_that_is_there_opens_whatever_the_register_of_the_mode_holds() {
    let workspace = Workspace::new();
    let (_file, name) = workspace.file("file");
    let path = address(&name);
    for garbage in [0o6777, 0xdead_beef_dead_beef, u64::MAX] {
        for flags in [libc::O_RDONLY, libc::O_RDWR | libc::O_TRUNC, libc::O_PATH] {
            let flags = u64::try_from(flags).unwrap();
            let ended = walled(libc::SYS_openat, [HERE, path, flags, garbage]);
            assert_eq!(ended, Ended::Succeeded);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(walled(libc::SYS_open, [path, flags, garbage]), Ended::Succeeded);
        }
    }
    // A directory is opened with the other bit of `O_TMPFILE`.
    let directory = workspace.name(".");
    let args = [HERE, address(&directory), libc::O_DIRECTORY as u64, u64::MAX];
    assert_eq!(walled(libc::SYS_openat, args), Ended::Succeeded);
}

#[test]
fn openat2_is_absent() {
    // Flags, mode and resolution, as the kernel reads them.
    let how = [CREATE, 0o4755, 0];
    let workspace = Workspace::new();
    let name = workspace.name("file");
    let args = [HERE, address(&name), (&raw const how).addr() as u64, size_of_val(&how) as u64];
    refused(Profile::Standard, libc::SYS_openat2, args, libc::ENOSYS);
    refused(Profile::Debug, libc::SYS_openat2, args, libc::ENOSYS);
}
