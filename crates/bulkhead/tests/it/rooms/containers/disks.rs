//! The disks of rooms that are containers: checkpoints, forks, and what is kept.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Signal, kill_process};

use super::Site;
use crate::host::within;

/// Everything that is odd about files, in the home directory, `/tmp`, `/var/tmp` and `/data`.
const ODD: &str = r#"python3 - <<'END'
import os, socket
for dir in ["/home/sandbox", "/tmp", "/var/tmp", "/data"]: open(dir + "/file", "w").write(dir)
os.chdir("/tmp"); os.link("file", "second"); os.mkdir("dir"); os.link("file", "dir/third")
os.symlink("/etc/passwd", "link"); os.symlink("../../../../../../etc", "tree"); os.mkfifo("pipe")
made = socket.socket(socket.AF_UNIX); made.bind("socket")
with open("sparse", "wb") as file: file.seek(50 << 20); file.write(b"end"); file.truncate(100 << 20)
open("closed", "w").write("closed"); os.chmod("closed", 0)
os.mkdir("shut"); open("shut/in", "w").write("in"); os.chmod("shut", 0)
os.setxattr("dir", "user.colour", b"red"); os.utime("dir", ns=(1, 2)); os.chmod("/data", 0o750)
open(b"new\nline\xff", "w").write("odd"); os.makedirs("deep/" * 100)
END"#;

/// The same in a line for each file.
const LIST: &str = r#"python3 - <<'END'
import os, stat, zlib
def show(path):
    about = os.lstat(path); kind = stat.S_IFMT(about.st_mode); folder = stat.S_ISDIR(kind)
    shut = not about.st_mode & 0o400 and not stat.S_ISLNK(kind)
    attributes = "" if stat.S_ISLNK(kind) else [os.getxattr(path, it) for it in os.listxattr(path)]
    if shut: os.chmod(path, 0o700)
    content = os.readlink(path) if stat.S_ISLNK(kind) else ""
    if stat.S_ISREG(kind): content = zlib.crc32(open(path, "rb").read())
    holes = about.st_blocks * 512 < about.st_size
    size = 0 if folder else about.st_size
    print(path, oct(about.st_mode), 0 if folder else about.st_nlink, size, holes, about.st_mtime_ns, content, attributes)
    for name in sorted(os.listdir(path)) if folder else []: show(os.path.join(path, name))
    if shut: os.chmod(path, stat.S_IMODE(about.st_mode))
for dir in [b"/home/sandbox", b"/tmp", b"/var/tmp", b"/data"]: show(dir)
END"#;

impl Site {
    fn layers(&self) -> Vec<String> {
        let found = fs::read_dir(self.rooms.host.state().join("layers"));
        let names = found.into_iter().flatten().map(|it| it.unwrap().file_name());
        names.map(|it| it.into_string().unwrap()).collect()
    }

    /// A shim holds its room a moment longer than its end is told.
    fn leaves_nothing(&self) {
        within(Duration::from_secs(30), || {
            self.fine(&["checkpoint", "ls", "-q"]);
            self.layers().is_empty() && self.containers().is_empty()
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let state = self.rooms.host.state();
        assert!(!mounts.contains(state.to_str().unwrap()), "{mounts}");
    }

    /// The layer of the only checkpoint.
    fn layer(&self) -> PathBuf {
        self.rooms.host.state().join("layers").join(&self.layers()[0])
    }
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_checkpoint_of_a_container_has_every_file_as_it_was() {
    let site = Site::empty("tests-of-checkpoints");
    let data = ["--no-workspace", "--tmpfs", "/data", "--net", "proxy"];
    site.create("shop", &data);
    site.inside(ODD);
    let was = site.inside(LIST);
    let made = site.rooms.host.json(&["checkpoint", "create", "shop", "good", "--json"]);
    assert_eq!((&made["name"], &made["backend"]), (&"good".into(), &"docker".into()), "{made}");
    assert!(made["bytes"].as_u64() < Some(1 << 20), "holes were filled: {made}");
    // It runs on, and what comes later is not of the checkpoint.
    site.inside("rm -rf ~/file /tmp/dir; echo other > /tmp/file; echo new > /tmp/new");
    // What was planted does no harm to the host: a link is a link, and nobody can run as its owner.
    let layer = site.layer();
    assert!(layer.join("tmp/link").is_symlink() && layer.join("tmp/tree").is_symlink());
    let setid = site.bulkhead(&["exec", "shop", "--", "chmod", "6755", "/tmp/file"]);
    assert!(setid.stderr.contains("Operation not permitted"), "{setid:?}");
    let refused = site.bulkhead(&["checkpoint", "restore", "good"]);
    assert!(refused.stderr.contains("the room `shop` runs"), "{refused:?}");
    site.fine(&["pause", "shop"]);
    site.fine(&["checkpoint", "restore", "good"]);
    assert_eq!(site.inside(LIST), was);
    // A checkpoint of the room on it needs no other, and a frozen room has one as well.
    site.inside("rm -rf /tmp/deep /tmp/new*; echo second > /tmp/file");
    site.fine(&["pause", "shop"]);
    site.fine(&["checkpoint", "create", "shop", "better"]);
    assert_eq!(site.held("{{.State.Paused}}"), "true\n");
    site.fine(&["checkpoint", "rm", "good"]);
    site.fine(&["checkpoint", "restore", "better", "--name", "beside"]);
    assert_eq!(
        site.says("beside", "cat /tmp/file; cd /tmp; echo *"),
        "second\nclosed dir file link pipe second shut socket sparse tree\n"
    );
    site.fine(&["rm", "--force", "shop", "beside"]);
    site.fine(&["checkpoint", "rm", "better"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn forks_of_a_container_are_machines_of_their_own() {
    let site = Site::empty("tests-of-forks");
    site.create("shop", &["--no-workspace"]);
    site.inside("echo mine > /tmp/file; echo a > /tmp/removed; rm /tmp/removed");
    assert_eq!(site.fine(&["fork", "shop", "-n", "3"]), "shop-1\nshop-2\nshop-3\n");
    let script = "ls /tmp; cat /tmp/file; uname -n; cat /etc/machine-id; \
        cat /proc/sys/kernel/random/boot_id";
    let mut seen = Vec::new();
    for room in ["shop", "shop-1", "shop-2", "shop-3"] {
        let said = site.says(room, script);
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(lines[..2], ["file", "mine"]);
        seen.extend_from_slice(&lines[2..]);
    }
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(!seen.contains(&host.trim().to_owned()), "{seen:?}");
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((all, seen.len()), (12, 12), "{seen:?}");
    // What one writes, no other sees.
    site.says("shop-1", "echo changed > /tmp/file");
    assert_eq!(site.says("shop-2", "cat /tmp/file"), "mine\n");
    // One that cannot be made takes the others along.
    let refused = site.bulkhead(&["fork", "shop", "-n", "2", "--name", "a/b"]);
    assert!(refused.stderr.contains("`a/b-1` cannot be the name of a room"), "{refused:?}");
    assert_eq!(site.containers().lines().count(), 4);
    site.fine(&["rm", "--force", "shop", "shop-1", "shop-2", "shop-3"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn changes_of_a_private_mount_are_of_the_checkpoint() {
    let site = Site::empty("tests-of-overlays");
    let tree = site.rooms.host.state().parent().unwrap().join("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    fs::write(tree.join("removed"), "a").unwrap();
    fs::write(tree.join("dir/hidden"), "b").unwrap();
    let mount = format!("{}:/tree:private", tree.display());
    site.create("shop", &["--no-workspace", "--mount", &mount]);
    site.inside("cd /tree; rm -r removed dir; mkdir dir; echo new > dir/new");
    site.fine(&["checkpoint", "create", "shop", "one"]);
    site.inside("echo later > /tree/later");
    site.fine(&["checkpoint", "restore", "one", "--force"]);
    assert_eq!(site.inside("cd /tree; echo * */*; cat dir/new"), "dir dir/new\nnew\n");
    assert!(tree.join("removed").exists() && tree.join("dir/hidden").exists());
    site.fine(&["rm", "--force", "shop"]);
    site.fine(&["checkpoint", "rm", "one"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn whoever_is_killed_while_a_container_is_copied_leaves_nothing() {
    let site = Site::empty("tests-of-mishaps");
    site.create("shop", &["--no-workspace"]);
    site.inside("head -c 300M /dev/zero > /tmp/big; echo a > /tmp/a");
    let command = |args: &[&str]| {
        let mut command = site.rooms.host.command(args);
        command.env("DOCKER_HOST", site.dockerd.address());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    // At every point that there is, and in between.
    for at in 1..6 {
        let mut create = command(&["checkpoint", "create", "shop", "cut"]);
        create.env("BULKHEAD_CRASH_AT", at.to_string());
        create.spawn().unwrap().wait().unwrap();
    }
    let mut create = command(&["checkpoint", "create", "shop", "cut"]).spawn().unwrap();
    within(Duration::from_secs(30), || !site.layers().is_empty());
    create.kill().unwrap();
    create.wait().unwrap();
    site.bulkhead(&["checkpoint", "rm", "cut"]);
    within(Duration::from_mins(1), || {
        site.fine(&["checkpoint", "ls", "-q"]);
        site.layers().is_empty()
    });
    assert_eq!(site.inside("cat /tmp/a; rm /tmp/big"), "a\n");
    // A room that is being made of a checkpoint is there or is not.
    site.fine(&["checkpoint", "create", "shop", "good"]);
    for at in 1..12 {
        let mut restore = command(&["checkpoint", "restore", "good", "--name", "beside"]);
        restore.env("BULKHEAD_CRASH_AT", at.to_string());
        restore.spawn().unwrap().wait().unwrap();
        site.bulkhead(&["rm", "--force", "beside"]);
    }
    site.fine(&["checkpoint", "restore", "good", "--name", "beside"]);
    assert_eq!(site.says("beside", "cat /tmp/a"), "a\n");
    site.fine(&["rm", "--force", "shop", "beside"]);
    site.fine(&["checkpoint", "rm", "good"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_disk_that_is_kept_outlives_its_container() {
    let site = Site::empty("tests-of-keeping");
    let tree = site.rooms.host.state().parent().unwrap().join("tree");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join("removed"), "a").unwrap();
    let mount = format!("{}:/tree:private", tree.display());
    site.create("shop", &["--no-workspace", "--persist", "--mount", &mount]);
    let missing = site.room()["missing"].to_string();
    assert!(missing.contains("DiskBounded"), "{missing}");
    site.inside("echo kept > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut; echo x > /run/x");
    site.inside("rm /tree/removed; echo new > /tree/new");
    site.fine(&["stop", "shop"]);
    assert_eq!(site.containers(), "");
    assert_eq!(site.fine(&["start", "shop"]), "shop\n");
    assert_eq!(
        site.inside("cat /tmp/a ~/b; echo /tmp/* /tree/*; test -e /run/x || echo gone"),
        "kept\nhome\n/tmp/a /tmp/shut /tree/new\ngone\n"
    );
    // The container is removed under it, and the shim is killed, as a restart of the host does.
    site.inside("echo more >> /tmp/a");
    let containers = site.containers();
    site.dockerd.docker(&["rm", "-f", containers.trim()]).unwrap();
    within(Duration::from_secs(30), || site.bulkhead(&["ls", "-q"]).stdout.is_empty());
    site.fine(&["start", "shop"]);
    assert_eq!(site.inside("cat /tmp/a"), "kept\nmore\n");
    kill_process(site.rooms.shim("shop"), Signal::KILL).unwrap();
    within(Duration::from_secs(30), || site.bulkhead(&["ls", "-q"]).stdout.is_empty());
    site.fine(&["prune"]);
    site.fine(&["start", "shop"]);
    assert_eq!(site.inside("cat /tmp/a; ls /tree"), "kept\nmore\nnew\n");
    // Its checkpoint is like any other, also when it has ended, and a fork of it is kept as well.
    site.fine(&["stop", "shop"]);
    site.fine(&["checkpoint", "create", "shop", "kept"]);
    site.fine(&["fork", "shop"]);
    assert_eq!(
        site.says("shop-1", "cat /tmp/a; ls /tree; echo fork > /tmp/a"),
        "kept\nmore\nnew\n"
    );
    site.fine(&["stop", "shop-1"]);
    site.fine(&["start", "shop-1"]);
    assert_eq!(site.says("shop-1", "cat /tmp/a"), "fork\n");
    site.fine(&["rm", "--force", "shop", "shop-1"]);
    site.fine(&["checkpoint", "rm", "kept"]);
    site.leaves_nothing();
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn a_bound_on_a_disk_that_a_container_keeps_is_refused() {
    let site = Site::empty("tests-of-bounds");
    let create = ["create", "--persist", "--backend", "docker", "--disk", "1g"];
    let refused = site.bulkhead(&[&create[..], &["--image", bulkhead_testbed::IMAGE]].concat());
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.stderr.contains("no quota is set"), "{refused:?}");
    assert!(refused.stderr.contains("leave --disk and --inodes out"), "{refused:?}");
    // A room whose disk ended with it has none to be copied.
    site.create("shop", &["--no-workspace"]);
    site.fine(&["stop", "shop"]);
    for verb in [&["checkpoint", "create", "shop"][..], &["fork", "shop"]] {
        let gone = site.bulkhead(verb);
        assert!(gone.stderr.contains("has ended, and its disk with it"), "{gone:?}");
    }
}

#[test]
#[ignore = "starts a Docker daemon, as root; test.sh does"]
fn disks_of_containers_with_another_kernel_are_copied_and_kept() {
    if bulkhead_testbed::find("runsc").is_none() {
        return;
    }
    let site = Site::empty("tests-of-gvisor-disks");
    let on = ["--runtime", "runsc", "--no-workspace"];
    site.create("shop", &on);
    site.inside("echo one > /tmp/a; echo home > ~/b; mkdir -m 0 /tmp/shut");
    site.fine(&["checkpoint", "create", "shop", "one"]);
    site.inside("echo two > /tmp/a");
    site.fine(&["checkpoint", "restore", "one", "--force"]);
    assert_eq!(site.inside("cat /tmp/a ~/b; echo /tmp/*"), "one\nhome\n/tmp/a /tmp/shut\n");
    site.fine(&["fork", "shop"]);
    assert_eq!(site.says("shop-1", "cat /tmp/a; echo fork > /tmp/a"), "one\n");
    assert_eq!(site.inside("cat /tmp/a"), "one\n");
    site.create("kept", &[&on[..], &["--persist"]].concat());
    site.says("kept", "echo kept > /tmp/a; echo home > ~/b");
    site.fine(&["stop", "kept"]);
    site.fine(&["start", "kept"]);
    assert_eq!(site.says("kept", "cat /tmp/a ~/b"), "kept\nhome\n");
    site.fine(&["rm", "--force", "shop", "shop-1", "kept"]);
    site.fine(&["checkpoint", "rm", "one"]);
    site.leaves_nothing();
}
