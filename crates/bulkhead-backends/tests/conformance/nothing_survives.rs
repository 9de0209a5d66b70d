//! When the sandbox ends, every program in it has ended.
//!
//! Every program of an attack holds a lock on one file of the workspace, which passes on to its
//! children. So the host can tell whether any of them is left, however many there are and however
//! quickly they take turns. Where another kernel keeps the locks, each of them adds to a file now and
//! then instead, and who lives is seen by its growth. All of them end by themselves after some
//! seconds, should nobody end them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use bulkhead_backends::Backend;
use libtest_mimic::Failed;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    attack::{Attack, Verdict, attacks},
    errand::Errand,
    host,
    makers::maker_of,
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] = attacks![
    Bites a_daemon_ends_with_its_sandbox,
    Bites who_ignores_signals_ends_too,
    Bites who_is_stopped_ends_too,
    Bites who_forks_on_and_on_ends_too,
    Bites many_end_within_a_second,
    Bites ends_when_nobody_holds_the_sandbox,
    Bites ends_when_its_maker_is_killed,
    Bites nobody_keeps_the_output_open,
    Bites leaves_no_shared_memory,
    CannotBeBuilt leaves_no_trace_on_the_host,
];

/// A child that has left its session, its parent and its streams.
const DAEMON: &str = r#"
import fcntl, threading, time
lock = os.open("alive", os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_SH)

# Signs of life, where the host sees no locks.
BEATS = os.path.exists("beats")

def sign():
    if BEATS:
        with open("beats", "ab") as beats:
            beats.write(b"x")

def signs():
    while True:
        sign()
        time.sleep(0.02)

def daemon(life):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            signal.alarm(20)
            if BEATS:
                threading.Thread(target=signs, daemon=True).start()
            life()
        os._exit(0)
    os.wait()
"#;

/// Leaves daemons behind, ends the sandbox and looks whether they are left.
fn survivors(backend: &dyn Backend, script: &str) -> Result<Verdict, Failed> {
    let room = prepared(Room::new(backend)?)?;
    let token = room.token();
    let mut inside = room.enter(&format!("{DAEMON}{script}"), &[&token])?;
    let ending = inside.wait()?;
    if !anybody_lives(&room)? {
        return Err("no daemon was left behind".into());
    }
    inside.destroy(ending)?;
    verdict(&room)
}

/// The room, with a file for signs of life where they are needed.
fn prepared(room: Room<'_>) -> Result<Room<'_>, Failed> {
    if room.is_shielded() {
        fs::write(room.workspace().join("beats"), "")?;
    }
    Ok(room)
}

/// Whether there are signs of life.
fn beats(room: &Room<'_>) -> Result<bool, Failed> {
    let size = || fs::metadata(room.workspace().join("beats")).map(|it| it.len());
    let before = size()?;
    let grown = || size().is_ok_and(|it| before < it).then_some(());
    Ok(host::eventually_within(Duration::from_secs(3), grown).is_some())
}

/// Whether a program that was started in `room` is still there.
fn anybody_lives(room: &Room<'_>) -> Result<bool, Failed> {
    if room.is_shielded() {
        return beats(room);
    }
    let file = fs::File::open(room.workspace().join("alive"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Broken if anybody is left, who is ended then.
fn verdict(room: &Room<'_>) -> Result<Verdict, Failed> {
    let left = anybody_lives(room)?;
    host::kill_all_with(&room.token());
    Ok(Verdict::broken_if(left.then(|| "a program is left".to_owned())))
}

fn a_daemon_ends_with_its_sandbox(backend: &dyn Backend) -> Result<Verdict, Failed> {
    survivors(backend, "daemon(signal.pause)")
}

fn who_ignores_signals_ends_too(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r"
def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGALRM})
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.pause()

daemon(deaf)
";
    survivors(backend, script)
}

fn who_is_stopped_ends_too(backend: &dyn Backend) -> Result<Verdict, Failed> {
    survivors(backend, "daemon(lambda: os.kill(os.getpid(), signal.SIGSTOP))")
}

/// It is never the same process for long, so whoever ends them one by one comes too late. Without
/// walls it goes on for two seconds.
fn who_forks_on_and_on_ends_too(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = r"
def run():
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sign()
        if os.fork() != 0:
            os._exit(0)
        time.sleep(0.001)

for _ in range(4):
    daemon(run)
";
    survivors(backend, script)
}

fn many_end_within_a_second(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = prepared(Room::new(backend)?)?;
    let token = room.token();
    // Each process in gVisor is a traced one of the host and gives signs of life all the time: they
    // are fewer, and what ends them has some more to do.
    let (many, limit) = if room.is_shielded() {
        ("12", Duration::from_secs(5))
    } else {
        ("60", Duration::from_secs(1))
    };
    let script = r#"
for _ in range(int(args[1])):
    daemon(signal.pause)
say("ready")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.alarm(20)
signal.pause()
"#;
    let mut inside = room.enter(&format!("{DAEMON}{script}"), &[&token, many])?;
    inside.hear("ready")?;
    if !anybody_lives(&room)? {
        return Err("no daemon is there".into());
    }
    let took = inside.kill()?;
    let left = verdict(&room)?;
    let slow = limit < took;
    Ok(if slow { Verdict::Broken(format!("it took {took:?}")) } else { left })
}

/// The caller forgot to destroy it, or was cancelled.
fn ends_when_nobody_holds_the_sandbox(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = prepared(Room::new(backend)?)?;
    let token = room.token();
    let script = "daemon(signal.pause)\nsay('ready')\nsignal.alarm(20)\nsignal.pause()";
    let inside = room.enter(&format!("{DAEMON}{script}"), &[&token])?;
    inside.hear("ready")?;
    inside.abandon();
    verdict(&room)
}

/// A Bulkhead that is killed can end nothing any more. And the next one removes what it left.
fn ends_when_its_maker_is_killed(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = prepared(Room::new(backend)?)?;
    let places = room.outside().to_owned();
    let maker = maker_of(backend);
    let errand = Errand::Hold {
        maker: maker.clone(),
        workspace: room.workspace().to_owned(),
        places: places.clone(),
    };
    let id = killed(&errand)?;
    let gone = || anybody_lives(&room).is_ok_and(|it| !it).then_some(());
    let ended = host::eventually_within(Duration::from_secs(1), gone).is_some();
    host::kill_all_with(&room.token());
    if !ended {
        return Ok(Verdict::Broken("programs are left".to_owned()));
    }
    let next = maker.make(&places)?;
    Room::at(&*next, room.workspace().to_owned(), places)?.sweep()?;
    let mut left = Vec::new();
    for entry in fs::read_dir(room.workspace())? {
        left.push(entry?.path());
    }
    left.retain(|it| !it.ends_with("alive") && !it.ends_with("beats"));
    find(Path::new("/sys/fs/cgroup"), &id, &mut left);
    Ok(Verdict::broken_if((!left.is_empty()).then(|| format!("{left:?} are left"))))
}

/// Kills whoever goes on the `errand` of holding a sandbox, once it is made; the sandbox's name.
pub(crate) fn killed(errand: &Errand) -> Result<String, Failed> {
    #[expect(clippy::disallowed_methods, reason = "it is this program that is started")]
    let mut maker = Command::new("/proc/self/exe");
    maker.args(errand.to_words()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut maker = maker.spawn()?;
    let mut said = String::new();
    let stdout = maker.stdout.take().ok_or("the maker has no output")?;
    BufReader::new(stdout).read_line(&mut said)?;
    let alive = maker.try_wait()?.is_none();
    maker.kill()?;
    maker.wait()?;
    match said.trim().strip_prefix("held ") {
        Some(id) if alive => Ok(id.to_owned()),
        Some(_) | None => Err(format!("no sandbox was made: {said}").into()),
    }
}

/// Makes a sandbox with a daemon for the one that is to be killed; tells its name.
pub(crate) fn hold(
    backend: &dyn Backend,
    workspace: PathBuf,
    outside: PathBuf,
) -> Result<String, Failed> {
    let room = Room::at(backend, workspace, outside)?;
    let token = room.token();
    let script = "daemon(signal.pause)\nsay('ready')\nsignal.alarm(20)\nsignal.pause()";
    let inside = room.enter(&format!("{DAEMON}{script}"), &[&token])?;
    inside.hear("ready")?;
    let id = inside.id.clone();
    // It is to live as long as this process does.
    std::mem::forget(inside);
    std::mem::forget(room);
    Ok(id)
}

/// Whoever reads the output must not wait for a grandchild that holds it.
fn nobody_keeps_the_output_open(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let token = room.token();
    let script = r#"
if os.fork() == 0:
    os.setsid()
    signal.alarm(20)
    signal.pause()
say("said before the end")
"#;
    let said = room.says(script, &[&token])?;
    host::kill_all_with(&token);
    if !said.stdout.contains("said before the end") {
        return Err(format!("output was lost: {said}").into());
    }
    let open = !said.output_ended;
    Ok(Verdict::broken_if(open.then(|| "the output did not end".to_owned())))
}

/// System V shared memory belongs to nobody and stays until it is removed.
fn leaves_no_shared_memory(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let key = std::process::id();
    let make = r#"
IPC_CREAT, IPC_EXCL = 0o1000, 0o2000
if libc.shmget(int(args[0]), 4096, IPC_CREAT | IPC_EXCL | 0o600) == -1:
    raise OSError(ctypes.get_errno(), "shmget")
say("made")
"#;
    let said = room.says(make, &[&key.to_string()])?;
    if !said.stdout.contains("made") {
        return Err(format!("no shared memory was made: {said}").into());
    }
    let segments = fs::read_to_string("/proc/sysvipc/shm")?;
    let ours = |line: &str| line.split_whitespace().next() == Some(key.to_string().as_str());
    let left = segments.lines().any(ours);
    if left && room.is_open() {
        let remove = "libc.shmctl(libc.shmget(int(args[0]), 0, 0), 0, None)";
        room.says(remove, &[&key.to_string()])?;
    }
    Ok(Verdict::broken_if(left.then(|| "a segment is left".to_owned())))
}

/// No mount, no cgroup, and in the workspace nothing that was not there.
fn leaves_no_trace_on_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let script = "say('ready')\nsignal.alarm(20)\nsignal.pause()";
    let inside = room.enter(script, &[])?;
    inside.hear("ready")?;
    let id = inside.id.clone();
    inside.abandon();
    let mut left = Vec::new();
    for entry in fs::read_dir(room.workspace())? {
        left.push(entry?.path());
    }
    find(Path::new("/sys/fs/cgroup"), &id, &mut left);
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let near = room.workspace().display().to_string();
    left.extend(mounts.lines().filter(|it| it.contains(&near)).map(PathBuf::from));
    Ok(Verdict::broken_if((!left.is_empty()).then(|| format!("{left:?} are left"))))
}

/// The directories below `dir` whose names contain `id`. Others come and go meanwhile.
fn find(dir: &Path, id: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir())) {
        if entry.file_name().to_string_lossy().contains(id) {
            found.push(entry.path());
        }
        find(&entry.path(), id, found);
    }
}
