//! Files: their bytes, their names, and the one call whose request decides.

use super::super::rule::{Action, Check, Clause, Errno, Rule, Verdict};
use super::{rule, rules};

/// Open files and what is in them.
pub(super) const DATA: &[Rule] = rules! {
    ALLOW;
    SYS_read: "Reads a file.";
    SYS_write: "Writes a file.";
    SYS_close: "Closes a file.";
    SYS_close_range: "Closes many files; shells and runtimes do so before exec.";
    SYS_lseek: "Moves in a file.";
    SYS_pread64: "Reads at a position.";
    SYS_pwrite64: "Writes at a position.";
    SYS_readv: "Reads into several buffers.";
    SYS_writev: "Writes several buffers.";
    SYS_preadv: "Reads at a position into several buffers.";
    SYS_pwritev: "Writes several buffers at a position.";
    SYS_preadv2: "The same with flags; databases use it.";
    SYS_pwritev2: "The same with flags; databases use it.";
    SYS_sendfile: "Copies between descriptors; web servers and shutil use it.";
    SYS_splice: "Moves data through a pipe; GNU tools use it.";
    SYS_tee: "Duplicates the data of a pipe.";
    SYS_copy_file_range: "Copies inside the kernel; cp, git and cargo use it.";
    SYS_readahead: "Fetches pages in advance.";
    SYS_fadvise64: "Tells the kernel how a file will be read.";
    SYS_cachestat: "Asks what of an own file is in the page cache.";
    SYS_fallocate: "Reserves space, within the sandbox's limit.";
    SYS_truncate: "Cuts a file.";
    SYS_ftruncate: "Cuts an open file.";
    SYS_fsync: "Puts a file on the disk; databases and git need it.";
    SYS_fdatasync: "Puts a file's data on the disk.";
    SYS_sync_file_range: "Starts writing back a part of a file.";
    SYS_sync: "Writes back everything; programs expect it to exist.";
    SYS_syncfs: "Writes back one filesystem; package managers use it.";
    SYS_dup: "Duplicates a descriptor.";
    SYS_dup3: "Duplicates a descriptor to a chosen number.";
    SYS_fcntl: "Flags, locks and leases of a descriptor.";
    SYS_flock: "Locks a file; cargo and apt do.";
    SYS_pipe2: "Makes a pipe.";
    SYS_pselect6: "Waits for descriptors.";
    SYS_ppoll: "Waits for descriptors.";
    SYS_epoll_create1: "Makes an event queue; every async runtime needs it.";
    SYS_epoll_ctl: "Adds a descriptor to an event queue.";
    SYS_epoll_pwait: "Waits on an event queue.";
    SYS_epoll_pwait2: "Waits on an event queue, to the nanosecond.";
    SYS_eventfd2: "Makes a counter to wait on; async runtimes wake by it.";
    SYS_signalfd4: "Makes signals readable as a file.";
    SYS_memfd_create: "Makes a file without a name; its memory is the sandbox's.";
    SYS_inotify_init1: "Watches files; build watchers and editors need it.";
    SYS_inotify_add_watch: "Watches one more file.";
    SYS_inotify_rm_watch: "Stops watching a file.";
    SYS_io_setup: "Asynchronous disk access of databases.";
    SYS_io_destroy: "Asynchronous disk access of databases.";
    SYS_io_submit: "Asynchronous disk access of databases.";
    SYS_io_cancel: "Asynchronous disk access of databases.";
    SYS_io_getevents: "Asynchronous disk access of databases.";
    SYS_io_pgetevents: "Asynchronous disk access of databases.";
};

/// Names, directories and attributes.
pub(super) const NAMES: &[Rule] = rules! {
    ALLOW;
    SYS_fstat: "Asks about an open file.";
    SYS_newfstatat: "Asks about a file by name.";
    SYS_statx: "Asks about a file; current C libraries use it for all.";
    SYS_statfs: "Asks how full a filesystem is.";
    SYS_fstatfs: "Asks how full the filesystem of an open file is.";
    SYS_faccessat: "Asks whether a file may be opened.";
    SYS_faccessat2: "The same with flags.";
    SYS_readlinkat: "Reads a symbolic link.";
    SYS_getdents64: "Lists a directory.";
    SYS_getcwd: "Asks for the current directory.";
    SYS_chdir: "Changes the current directory.";
    SYS_fchdir: "Changes the current directory to an open one.";
    SYS_unlinkat: "Removes a file or a directory.";
    SYS_renameat: "Renames a file.";
    SYS_renameat2: "Renames a file with flags.";
    SYS_linkat: "Makes a hard link, within one mount.";
    SYS_symlinkat: "Makes a symbolic link.";
    SYS_umask: "Sets the mode mask of new files.";
    SYS_fchown: "Gives an open file away, as far as the ids of the sandbox reach.";
    SYS_fchownat: "Gives a file away, as far as the ids of the sandbox reach.";
    SYS_utimensat: "Sets a file's times; make and tar need it.";
    SYS_getxattr: "Reads an extended attribute.";
    SYS_lgetxattr: "Reads an extended attribute of a link.";
    SYS_fgetxattr: "Reads an extended attribute of an open file.";
    SYS_getxattrat: "Reads an extended attribute.";
    SYS_listxattr: "Lists extended attributes; ls and cp do.";
    SYS_llistxattr: "Lists extended attributes of a link.";
    SYS_flistxattr: "Lists extended attributes of an open file.";
    SYS_listxattrat: "Lists extended attributes.";
    SYS_setxattr: "Sets a user's extended attribute; cp -a and tar do.";
    SYS_lsetxattr: "Sets an extended attribute of a link.";
    SYS_fsetxattr: "Sets an extended attribute of an open file.";
    SYS_setxattrat: "Sets an extended attribute.";
    SYS_removexattr: "Removes an extended attribute.";
    SYS_lremovexattr: "Removes an extended attribute of a link.";
    SYS_fremovexattr: "Removes an extended attribute of an open file.";
    SYS_removexattrat: "Removes an extended attribute.";
    SYS_file_getattr: "Reads a file's flags, as lsattr does.";
};

/// What is good or bad by what it is given.
pub(super) const INSPECTED: &[Rule] = &[rule!(
    SYS_ioctl,
    IOCTL,
    "Terminals need it; some requests type for others or administer."
)];

/// The kernel takes the request as 32 bits.
const IOCTL: Action = Action::ByArguments {
    clauses: &[Clause {
        checks: &[Check::int(1, REFUSED_REQUESTS)],
        verdict: Verdict::Refuse(Errno::NotPermitted),
    }],
    otherwise: Verdict::Allow,
};

/// Requests that have no place in a sandbox. Those of devices are not listed: there are none.
const REFUSED_REQUESTS: &[u64] = &[
    // TIOCSTI types into the terminal, and so for whoever reads from it next (CVE-2017-5226).
    0x5412,
    // TIOCLINUX pastes the console's selection, which comes to the same (CVE-2023-28100).
    0x541c,
    // TIOCCONS takes the console's output.
    0x541d,
    // TIOCSETD attaches a line discipline: seldom used drivers, often broken.
    0x5423,
    // FIFREEZE, FITHAW and FITRIM administer a filesystem that is the host's.
    0xc004_5877,
    0xc004_5878,
    0xc018_5879,
    // FS_IOC_SETFLAGS can make a directory ignore case, behind the back of a check by name.
    0x4008_6602,
    // FS_IOC_FSSETXATTR sets the project by which a disk quota counts.
    0x401c_5820,
    // FS_IOC_ENABLE_VERITY makes a file unchangeable for its owner on the host too.
    0x4080_6685,
    // FS_IOC_SET_ENCRYPTION_POLICY leaves a directory that the host cannot read.
    0x800c_6613,
    // FS_IOC_ADD_ENCRYPTION_KEY, REMOVE_ENCRYPTION_KEY and REMOVE_ENCRYPTION_KEY_ALL_USERS work on
    // keys that the whole filesystem shares.
    0xc050_6617,
    0xc040_6618,
    0xc040_6619,
    // BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE and their second versions leave what `rm` cannot
    // remove and a quota may not count.
    0x5000_9401,
    0x5000_940e,
    0x5000_9417,
    0x5000_9418,
];
