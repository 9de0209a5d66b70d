//! A program in memory that nobody can change.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::ptr;

use bulkhead_linux::memfd::Unsealed;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals};

const PROGRAM: &[u8] = b"what the guest is";

fn refused<T: std::fmt::Debug>(done: io::Result<T>) {
    assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EPERM));
}

/// A page of the file that is memory of ours, writable.
fn map(file: &File) -> io::Result<*mut libc::c_void> {
    let (both, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping at a place of the kernel's choice concerns no memory of ours.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, both, shared, file.as_raw_fd(), 0) };
    if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(page) }
}

/// Tries all ways to change the file that this handle has.
fn assert_unchangeable(mut file: &File) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    refused(file.write(b"x"));
    refused(file.write_at(b"x", 0));
    refused(file.set_len(1));
    refused(file.set_len(1 << 20));
    refused(fallocate(file, hole, 0, 4).map_err(Into::into));
    refused(map(file));
}

#[test]
fn a_sealed_program_cannot_be_changed() {
    let sealed = File::from(Unsealed::create().unwrap().seal(PROGRAM).unwrap());
    assert_unchangeable(&sealed);
    // By its name in `/proc` a sandbox could open it anew (CVE-2019-5736).
    let name = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    assert_unchangeable(&OpenOptions::new().read(true).write(true).open(&name).unwrap());
    refused(File::create(&name));
    assert_eq!(std::fs::read(&name).unwrap(), PROGRAM);
}

#[test]
fn the_seals_are_for_good() {
    let sealed = Unsealed::create().unwrap().seal(PROGRAM).unwrap();
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    assert_eq!(fcntl_get_seals(&sealed).unwrap(), all);
    refused(fcntl_add_seals(&sealed, SealFlags::FUTURE_WRITE).map_err(Into::into));
}

#[test]
fn nothing_can_be_sealed_while_somebody_can_write_through_a_mapping() {
    let unsealed = Unsealed::create().unwrap();
    let page = map(unsealed.file()).unwrap();
    let error = unsealed.seal(PROGRAM).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    // SAFETY: it was mapped above, and nothing refers to it.
    assert_eq!(unsafe { libc::munmap(page, 4096) }, 0);
}
