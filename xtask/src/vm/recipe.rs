//! What the guest is made of, as data.
//!
//! It boots as an ordinary Debian does: systemd, the unified cgroup tree, logind, and a user manager
//! for an ordinary person. Only what costs boot time and changes nothing for a test is left out.

use std::path::Path;

/// The package that pulls in the kernel. Not the "cloud" one: that has no 9p, which shares files.
pub(super) const KERNEL: &str = "linux-image-amd64";

/// The packages of the guest, on top of Debian's minimal set.
pub(super) const PACKAGES: &[&str] = &[
    // The session of a person at a laptop.
    "systemd",
    "systemd-sysv",
    "dbus",
    "dbus-user-session",
    "libpam-systemd",
    "udev",
    "kmod",
    // What the tests run inside a sandbox.
    "gcc",
    "gdb-minimal",
    "git",
    "iproute2",
    "libc6-dev",
    "make",
    "procps",
    "python3",
    "python3-venv",
    "strace",
    "util-linux",
    // The shell of the first boot stage.
    "busybox-static",
];

/// The person of the guest.
pub(super) const TESTER: &str = "tester";

/// The person's uid, which names `user@1000.service` and `/run/user/1000`.
pub(super) const TESTER_UID: u32 = 1000;

/// The PAM service that opens a session. It is what `login` does, less its greetings.
pub(super) const SESSION_SERVICE: &str = "bulkhead-session";

/// The tag under which the host offers the job's directory.
pub(super) const JOB_TAG: &str = "job";

/// The name of the channel on which the guest's output leaves.
pub(super) const OUTPUT_PORT: &str = "out";

/// How a directory of the host is mounted: nothing in it changes while the guest runs, so the guest
/// may keep what it has read.
pub(super) const SHARE_OPTIONS: &str =
    "trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144";

/// Modules that must be there before the root filesystem and the job can be. In order.
pub(super) const EARLY_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    // Asked for by ext4 by algorithm, so not among its listed dependencies.
    "crc32c_generic",
    "ext4",
    "virtio_console",
    "9pnet_virtio",
    "9p",
];

/// Drivers for hardware that QEMU is not asked to have: two thirds of the modules' size.
pub(super) const PRUNED_MODULES: &[&str] = &[
    "drivers/ata",
    "drivers/gpu",
    "drivers/hid",
    "drivers/hwmon",
    "drivers/i2c",
    "drivers/iio",
    "drivers/infiniband",
    "drivers/input",
    "drivers/isdn",
    "drivers/media",
    "drivers/mtd",
    "drivers/net/ethernet",
    "drivers/net/wireless",
    "drivers/scsi",
    "drivers/staging",
    "drivers/usb",
    "drivers/watchdog",
    "sound",
];

/// Units that cost time at every boot and that no test can see.
const MASKED: &[&str] = &[
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty@tty1.service",
    "modprobe@drm.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-journal-flush.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
];

/// Something placed in the guest's root filesystem.
pub(super) enum Placed {
    File { path: String, text: String },
    Link { path: String, to: String },
}

/// Everything of ours in the guest, with paths relative to its root.
pub(super) fn placed() -> Vec<Placed> {
    let mut all = vec![
        file("etc/hostname", "bulkhead-vm\n"),
        file("etc/hosts", "127.0.0.1 localhost bulkhead-vm\n"),
        // Without an id of its own, each boot would take itself for the first.
        file("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        // The person's manager runs without anybody logged in.
        file(&format!("var/lib/systemd/linger/{TESTER}"), ""),
        file(&format!("etc/pam.d/{SESSION_SERVICE}"), SESSION),
        file("etc/systemd/system/bulkhead-job.service", &job_service()),
        link(
            "etc/systemd/system/multi-user.target.wants/bulkhead-job.service",
            "/etc/systemd/system/bulkhead-job.service",
        ),
        link("etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target"),
    ];
    all.extend(
        MASKED.iter().map(|unit| link(&format!("etc/systemd/system/{unit}"), "/dev/null")),
    );
    all
}

/// The first program of the guest: loads what the root filesystem needs, and hands over to systemd.
pub(super) fn early_init(modules: &[String]) -> String {
    let load = modules.iter().map(|module| {
        let name = Path::new(module).file_name().unwrap_or_default();
        format!("$box insmod /modules/{}", name.display())
    });
    let before = ["#!/bin/sh", "box=/bin/busybox", "$box mount -t devtmpfs dev /dev"];
    let after = [
        "$box mount -t ext4 /dev/vda /root",
        "$box mount --move /dev /root/dev",
        "exec $box switch_root /root /sbin/init",
        "",
    ];
    let lines: Vec<_> = before
        .map(str::to_owned)
        .into_iter()
        .chain(load)
        .chain(after.map(str::to_owned))
        .collect();
    lines.join("\n")
}

/// A session as a login opens it: known to logind, of the class that people have, with a scope of its
/// own that is *not* delegated, exactly like a terminal on a laptop.
const SESSION: &str = "\
account required pam_permit.so
auth required pam_permit.so
session required pam_loginuid.so
session required pam_limits.so
session required pam_unix.so
session required pam_systemd.so class=user type=tty
";

/// The service that runs the job, once the person's manager is up, and ends the machine after it.
///
/// The output passes through a pipe, because programs under test should see what they see in a
/// build: the channel itself can be opened only once.
fn job_service() -> String {
    format!(
        "\
[Unit]
Description=The job that the host has sent
Wants=user@{TESTER_UID}.service
After=user@{TESTER_UID}.service systemd-logind.service
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStartPre=/bin/mount -m -t 9p -o {SHARE_OPTIONS} {JOB_TAG} /run/job
ExecStart=/bin/sh -c '/bin/sh /run/job/job.sh </dev/null 2>&1 | cat >/dev/virtio-ports/{OUTPUT_PORT}'
"
    )
}

fn file(path: &str, text: &str) -> Placed {
    Placed::File { path: path.to_owned(), text: text.to_owned() }
}

fn link(path: &str, to: &str) -> Placed {
    Placed::Link { path: path.to_owned(), to: to.to_owned() }
}
