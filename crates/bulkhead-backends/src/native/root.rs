//! The host's own programs, as a sandbox may see them: an allow-list.
//!
//! Never `/` as a whole: a read-only bind of the root still shows every socket, key and home
//! directory of the machine, and a socket under a read-only mount still answers.

/// Programs and libraries. On most hosts all but the first are links into it.
pub(super) const PROGRAMS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// What programs read below `/etc`: how to link, which certificates to trust, what things are
/// called. Nothing about the host's users, services or network.
pub(super) const SETTINGS: [&str; 24] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/java-25-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/maven",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/perl",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// Device nodes, with the numbers that they must have.
pub(super) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Files of `/proc` that tell about the host or its kernel.
pub(super) const HIDDEN_IN_PROC: [&str; 12] = [
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
];

/// Directories of `/proc` that do.
pub(super) const EMPTY_IN_PROC: [&str; 4] =
    ["/proc/acpi", "/proc/asound", "/proc/scsi", "/proc/driver"];

/// Parts of `/proc` that change the host's kernel when written. Their permissions forbid it as
/// well; this holds even if one of them does not.
pub(super) const READ_ONLY_IN_PROC: [&str; 1] = ["/proc/sys"];

/// Who there is, for programs that want names for numbers.
pub(super) const PASSWD: &str = "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
pub(super) const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
pub(super) const HOSTS: &str = "127.0.0.1 localhost bulkhead\n::1 localhost ip6-localhost\n";
/// Who is asked for names: nobody, or whoever answers at any address.
pub(super) const NO_NAMES: &str = "# There is no network here.\n";
pub(super) const OUR_NAMES: &str = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n";
pub(super) const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nprotocols: files\nservices: files\n";
