//! Checkpoints of rooms, and rooms that begin with them.

use std::time::Duration;

use bulkhead_engine::rooms::{Checkpoint, CheckpointError, Client, Journal, Listed};
use bulkhead_spec::Ending;
use tokio::task::JoinHandle;

use crate::{
    house::{House, new_id},
    rooms::{heard, journal, record, shim},
};

/// Bulkhead itself; no room here has a disk that it would have to copy.
const ITSELF: &str = "/nowhere/bulkhead";

/// Rooms of one test, ended one by one.
struct Rooms {
    house: House,
    journal: Journal,
    shims: Vec<(Client, JoinHandle<()>)>,
}

impl Rooms {
    fn new() -> Self {
        let house = House::new();
        let journal = journal(&house);
        Self { house, journal, shims: Vec::new() }
    }

    async fn make(&mut self, record: bulkhead_engine::rooms::Record) -> Client {
        let (client, task) = shim(&self.house, record).await;
        let client = client.unwrap();
        self.shims.push((client.clone(), task));
        client
    }

    /// An empty room.
    async fn empty(&mut self, name: &str) -> Client {
        self.make(record(&self.house, name)).await
    }

    /// A room that begins with `checkpoint`.
    async fn on(&mut self, checkpoint: &Checkpoint, name: &str) -> Client {
        self.make(checkpoint.room(new_id(), name.to_owned())).await
    }

    fn find(&self, name: &str) -> Listed {
        self.journal.find(name).unwrap()
    }

    async fn checkpoint(&self, room: &str, name: &str) -> Checkpoint {
        self.journal.checkpoint(ITSELF.as_ref(), &self.find(room), Some(name)).await.unwrap()
    }

    async fn end(&mut self) {
        for (client, task) in self.shims.drain(..) {
            client.end(Duration::ZERO).await.unwrap();
            task.await.unwrap();
        }
    }

    fn layers(&self) -> usize {
        std::fs::read_dir(self.house.path().join("state/layers")).map_or(0, Iterator::count)
    }
}

async fn says(client: &Client, script: &str) -> String {
    let (text, ending) = heard(client, script).await;
    assert_eq!(ending, Ending::Exited { code: 0 }, "{text}");
    text
}

/// Everything that is odd about files, in `/tmp/odd` and in the home directory.
const ODD: &str = r#"python3 - <<'END'
import os, socket
os.mkdir("/tmp/odd"); os.chdir("/tmp/odd")
with open("sparse", "wb") as file:
    file.seek(50 << 20); file.write(b"end"); file.truncate(100 << 20)
open("plain", "w").write("text"); os.link("plain", "second"); os.chmod("plain", 0o751)
os.mkdir("dir"); os.link("plain", "dir/third")
os.symlink("/etc/passwd", "link"); os.symlink("/etc", "dir/tree"); os.symlink("nowhere", "dangling")
os.mkfifo("pipe", 0o640)
made = socket.socket(socket.AF_UNIX); made.bind("socket")
open(b"new\nline", "w").write("n"); open(b"\xff\xfe", "w").write("x"); open("-rf", "w").write("-")
open("x" * 255, "w").write("long")
open("closed", "w").write("closed"); os.chmod("closed", 0)
os.mkdir("shut"); open("shut/in", "w").write("in"); os.chmod("shut", 0)
os.utime("dir", ns=(1, 2)); os.utime("plain", ns=(3000000001, 4000000002))
try: os.setxattr("dir", "user.colour", b"\0red")
except OSError: pass
os.makedirs("/tmp/odd/" + "/".join(["deep"] * 200))
open("/home/sandbox/.profile", "w").write("mine")
END"#;

/// The same tree in one line for each file.
const LIST: &str = r#"python3 - <<'END'
import os, hashlib, stat
def show(path):
    about = os.lstat(path); kind = stat.S_IFMT(about.st_mode)
    shut = stat.S_ISDIR(kind) and not about.st_mode & 0o500
    attributes = {} if os.path.islink(path) else {n: os.getxattr(path, n) for n in os.listxattr(path)}
    if shut or (stat.S_ISREG(kind) and not about.st_mode & 0o400): os.chmod(path, 0o700)
    content = ""
    if stat.S_ISREG(kind): content = hashlib.md5(open(path, "rb").read()).hexdigest()
    if stat.S_ISLNK(kind): content = os.readlink(path)
    holes = stat.S_ISREG(kind) and about.st_blocks * 512 < about.st_size
    links = 0 if stat.S_ISDIR(kind) else about.st_nlink
    time = about.st_mtime_ns
    print(path, oct(about.st_mode & ~0o6000), links, 0 if stat.S_ISDIR(kind) else about.st_size, holes, time, content, attributes)
    if stat.S_ISDIR(kind):
        for name in sorted(os.listdir(path)): show(os.path.join(path, name))
    if shut or not about.st_mode & 0o400: os.chmod(path, stat.S_IMODE(about.st_mode))
show(b"/tmp/odd")
print(open("/home/sandbox/.profile").read())
END"#;

#[tokio::test]
async fn a_room_on_a_checkpoint_has_every_file_as_it_was() {
    let mut rooms = Rooms::new();
    let first = rooms.empty("first").await;
    says(&first, ODD).await;
    let checkpoint = rooms.checkpoint("first", "odd").await;
    let was = says(&first, LIST).await;
    assert!(50 < checkpoint.files, "{checkpoint:?}");
    assert!(checkpoint.bytes < 1 << 20, "holes were filled: {checkpoint:?}");
    let second = rooms.on(&checkpoint, "second").await;
    assert_eq!(says(&second, LIST).await, was);
    rooms.end().await;
}

#[tokio::test]
async fn what_was_removed_stays_removed_and_what_came_later_is_not_there() {
    let mut rooms = Rooms::new();
    let first = rooms.empty("first").await;
    says(&first, "mkdir /tmp/d; echo a >/tmp/d/a; echo b >/tmp/b; echo c >/home/sandbox/c")
        .await;
    let one = rooms.checkpoint("first", "one").await;
    says(&first, "echo later >/tmp/later").await;
    let second = rooms.on(&one, "second").await;
    assert_eq!(
        says(&second, "ls /home/sandbox /tmp").await,
        "/home/sandbox:\nc\n\n/tmp:\nb\nd\n"
    );
    says(
        &second,
        "rm -r /tmp/d /home/sandbox/c; mkdir /tmp/d; echo new >/tmp/d/new; echo bb >>/tmp/b",
    )
    .await;
    let two = rooms.checkpoint("second", "two").await;
    assert_eq!(two.layers.len(), 2);
    let third = rooms.on(&two, "third").await;
    let seen = says(&third, "cat /tmp/b; ls -A /home/sandbox /tmp/d; rm /tmp/b; ls /tmp").await;
    assert_eq!(seen, "b\nbb\n/home/sandbox:\n\n/tmp/d:\nnew\nd\n");
    // Neither room has changed what the other begins with.
    let again = rooms.on(&one, "again").await;
    assert_eq!(says(&again, "cat /tmp/b /tmp/d/a /home/sandbox/c").await, "b\na\nc\n");
    rooms.end().await;
}

#[tokio::test]
async fn children_differ_in_all_that_tells_machines_apart() {
    let mut rooms = Rooms::new();
    let parent = rooms.empty("parent").await;
    says(&parent, "echo mine >/tmp/x").await;
    let listed = rooms.find("parent");
    let snapshot = rooms.journal.snapshot_for_fork(ITSELF.as_ref(), &listed).await.unwrap();
    let script = "cat /tmp/x; hostname; cat /etc/hostname /etc/machine-id \
        /proc/sys/kernel/random/boot_id";
    let mut seen = vec![says(&parent, script).await];
    for at in 0..4 {
        let record = listed.record.forked(new_id(), format!("child-{at}"), &snapshot);
        let child = rooms.make(record).await;
        seen.push(says(&child, script).await);
    }
    drop(snapshot);
    for field in 0..5 {
        let mut values: Vec<&str> =
            seen.iter().map(|it| it.lines().nth(field).unwrap()).collect();
        values.sort_unstable();
        values.dedup();
        let expected = if field == 0 { 1 } else { seen.len() };
        assert_eq!(values.len(), expected, "{seen:?}");
    }
    assert_eq!(rooms.layers(), 1);
    rooms.end().await;
    rooms.journal.sweep_layers().unwrap();
    assert_eq!(rooms.layers(), 0);
}

#[tokio::test]
async fn a_layer_stays_as_long_as_somebody_begins_with_it() {
    let mut rooms = Rooms::new();
    let first = rooms.empty("first").await;
    says(&first, "echo a >/tmp/a; mkdir -m 0 /tmp/shut").await;
    let one = rooms.checkpoint("first", "one").await;
    let second = rooms.on(&one, "second").await;
    // One that nobody finished writing goes with the next sweep.
    let half = rooms.house.path().join("state/checkpoints/half.json.new");
    std::fs::write(&half, "{").unwrap();
    rooms.journal.remove_checkpoint("one").unwrap();
    assert!(!half.exists());
    assert_eq!(rooms.layers(), 1);
    assert_eq!(says(&second, "cat /tmp/a").await, "a\n");
    let gone = rooms.journal.find_checkpoint("one").unwrap_err();
    assert_eq!(gone.to_string(), "there is no checkpoint `one`");
    rooms.end().await;
    rooms.journal.sweep_layers().unwrap();
    assert_eq!(rooms.layers(), 0);
    // Nobody can begin with it any more.
    let (refused, _) = shim(&rooms.house, one.room(new_id(), "late".to_owned())).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused, "a layer that the room begins with is not there any more");
}

#[tokio::test]
async fn names_are_checked_before_anything_is_copied() {
    let mut rooms = Rooms::new();
    rooms.empty("room").await;
    rooms.checkpoint("room", "taken").await;
    for (name, why) in [
        ("taken", "a checkpoint called `taken` exists already"),
        (
            "../up",
            "`../up` cannot be the name of a room: letters, digits, `-`, `_` and `.`, at most 64",
        ),
    ] {
        let refused =
            rooms.journal.checkpoint(ITSELF.as_ref(), &rooms.find("room"), Some(name)).await;
        assert_eq!(refused.unwrap_err().to_string(), why);
    }
    let named =
        rooms.journal.checkpoint(ITSELF.as_ref(), &rooms.find("room"), None).await.unwrap();
    assert_eq!(named.name, "room-1");
    assert_eq!(rooms.layers(), 2);
    rooms.end().await;
    let ended =
        rooms.journal.checkpoint(ITSELF.as_ref(), &rooms.find("room"), None).await.unwrap_err();
    assert!(matches!(ended, CheckpointError::Ended(_)), "{ended}");
    assert_eq!(rooms.layers(), 2);
}
