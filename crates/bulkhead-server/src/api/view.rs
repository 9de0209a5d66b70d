//! What the engine knows, in the words of the API.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bulkhead_engine::rooms::{
    Client, Keeping, Life, Listed, ProgramInfo, Stats, Then, Why,
    tree::{Facts, Kind},
};
use bulkhead_spec::{Ending, Guarantees, Root};

use super::{
    sandboxes::moment,
    words::{
        Ended, EndingKind, EndingView, FileKind, FileView, OnTimeout, ProgramView, SandboxInfo,
        SandboxState, SandboxStats,
    },
};
use crate::{clock::rfc3339, house::House};

pub(super) use crate::house::OWN_LABELS as OWN;

/// A sandbox, asked itself if it lives.
pub(super) async fn of(house: &House, listed: &Listed) -> SandboxInfo {
    let mut info = written(listed);
    if listed.life != Life::Alive {
        return info;
    }
    let client = Client::new(house.journal.socket(&listed.record.id));
    let Ok(room) = client.inspect().await else {
        info.state = SandboxState::Changing;
        return info;
    };
    info.state = if room.paused { SandboxState::Paused } else { SandboxState::Running };
    info.backend = room.backend;
    info.upheld = names(&room.upheld);
    info.missing = names(&room.missing);
    info.directory = room.dir.map(|it| it.0.to_string_lossy().into_owned());
    info.idle_seconds = room.lifetime.idle.map(|it| it.0.as_secs_f64());
    info.on_timeout = then(room.lifetime.then);
    let left = room.left_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
    let end = left.and_then(|it| SystemTime::now().checked_add(it));
    info.expires_at = end.map(rfc3339);
    info
}

/// A sandbox as far as it is written down.
pub(super) fn written(listed: &Listed) -> SandboxInfo {
    let record = &listed.record;
    let labels = record.labels.iter().filter(|(key, _)| !key.starts_with(OWN));
    let ended = match &listed.life {
        Life::Alive => None,
        Life::Ended(end) => {
            Some(Ended { at: rfc3339(moment(end.at)), why: why(&end.why).to_owned() })
        }
    };
    SandboxInfo {
        id: record.id.clone(),
        name: record.name.clone(),
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        state: if ended.is_some() { SandboxState::Ended } else { SandboxState::Running },
        backend: record.backend.clone(),
        image: match &record.spec.root {
            Root::Image(image) => Some(image.source.to_string()),
            Root::Host | Root::Directory(_) => None,
        },
        created_at: rfc3339(moment(record.made)),
        expires_at: None,
        idle_seconds: record.lifetime.idle.map(|it| it.0.as_secs_f64()),
        on_timeout: then(record.lifetime.then),
        ended,
        upheld: Vec::new(),
        missing: Vec::new(),
        directory: None,
        persistent: record.keeping == Keeping::Disk,
    }
}

fn names(guarantees: &Guarantees) -> Vec<String> {
    guarantees.iter().map(|it| it.to_string()).collect()
}

fn then(then: Then) -> OnTimeout {
    match then {
        Then::Kill => OnTimeout::Kill,
        Then::Pause => OnTimeout::Pause,
    }
}

fn why(why: &Why) -> &'static str {
    match why {
        Why::Stopped => "stopped",
        Why::Expired => "expired",
        Why::Idle => "idle",
        Why::Lost => "lost",
        Why::Unbuilt(_) => "unbuilt",
    }
}

/// What a sandbox has used.
pub(super) fn stats(stats: &Stats) -> SandboxStats {
    SandboxStats {
        wall_seconds: stats.wall_seconds,
        cpu_seconds: stats.cpu_seconds,
        memory_bytes: stats.memory,
        memory_peak_bytes: stats.memory_peak,
        memory_limit_bytes: stats.memory_limit,
        processes_peak: stats.processes_peak,
        programs: stats.programs,
        oom_kills: stats.oom_kills,
    }
}

/// A program.
pub(super) fn program(info: &ProgramInfo) -> ProgramView {
    ProgramView {
        id: info.id,
        pid: info.pid,
        tag: info.tag.clone(),
        argv: info.argv.iter().map(|it| it.0.to_string_lossy().into_owned()).collect(),
        cwd: info.dir.clone(),
        terminal: info.terminal,
        started_at: rfc3339(moment(info.started)),
        running: info.running,
        ending: info.ending.as_ref().map(ending),
        output_bytes: info.said,
    }
}

/// How a program ended.
pub(super) fn ending(ending: &Ending) -> EndingView {
    let (kind, signal) = match *ending {
        Ending::Exited { .. } => (EndingKind::Exited, None),
        Ending::Signaled { signal } => (EndingKind::Signaled, Some(signal)),
        Ending::TimedOut { .. } => (EndingKind::TimedOut, None),
        Ending::CpuTimeExceeded { .. } => (EndingKind::CpuTimeExceeded, None),
        Ending::OutOfMemory { .. } => (EndingKind::OutOfMemory, None),
        Ending::DiskFull { .. } => (EndingKind::DiskFull, None),
        Ending::OutputLimit { .. } => (EndingKind::OutputLimit, None),
        Ending::Canceled { signal } => (EndingKind::Canceled, Some(signal)),
        Ending::Lost => (EndingKind::Lost, None),
    };
    EndingView { kind, exit_code: ending.exit_code().into(), signal }
}

/// Something in the file system, at `path`.
pub(super) fn file(path: &[u8], facts: &Facts) -> FileView {
    let text = String::from_utf8_lossy(path);
    let raw_path = std::str::from_utf8(path).is_err().then(|| STANDARD.encode(path));
    let (seconds, nanos) = facts.modified;
    let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanos.min(999_999_999));
    FileView {
        name: text.rsplit('/').next().unwrap_or_default().to_owned(),
        path: text.into_owned(),
        raw_path,
        kind: match facts.kind {
            Kind::File => FileKind::File,
            Kind::Dir => FileKind::Directory,
            Kind::Link => FileKind::Link,
            Kind::Fifo => FileKind::Pipe,
            Kind::Socket => FileKind::Socket,
            Kind::Device => FileKind::Device,
        },
        size: facts.size,
        mode: facts.mode & 0o7777,
        uid: facts.owner.0,
        gid: facts.owner.1,
        modified_at: rfc3339(UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)),
        target: facts.target.as_ref().map(|it| String::from_utf8_lossy(it).into_owned()),
    }
}
