//! No program has the host's root identity.

use bulkhead_backends::Backend;
use libtest_mimic::Failed;
use rustix::process::{Pid, getgid, getuid};

use crate::{
    attack::{Attack, Verdict, attacks},
    host,
    room::Room,
};

pub(crate) const ATTACKS: &[Attack] =
    attacks![BitesAsRoot is_not_root_on_the_host, BitesAsRoot every_process_is_not_root];

/// Below this are the host's own users and services.
const FIRST: u32 = 100_000;

const WAIT: &str = "say('ready')\nsignal.alarm(20)\nsignal.pause()";

fn is_not_root_on_the_host(backend: &dyn Backend) -> Result<Verdict, Failed> {
    observed(backend, WAIT, 1)
}

/// Also those that were started in sessions of their own, and PID 1 itself.
fn every_process_is_not_root(backend: &dyn Backend) -> Result<Verdict, Failed> {
    let script = "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n";
    observed(backend, &format!("{script}{WAIT}"), 3)
}

fn observed(backend: &dyn Backend, script: &str, count: usize) -> Result<Verdict, Failed> {
    let room = Room::new(backend)?;
    let token = room.token();
    let mut inside = room.enter(script, &[&token])?;
    let processes = if room.is_shielded() {
        // Another kernel runs them: that none is a process of the host is the most that there is.
        inside.hear("ready")?;
        host::processes_with(&token)
    } else {
        host::eventually("the processes are there", || {
            let found = host::processes_with(&token);
            (count <= found.len()).then_some(found)
        })?
    };
    let mut broken = None;
    for pid in processes {
        broken = broken.or(privileged(pid)?);
        let parent =
            host::status(pid, "PPid")?.first().copied().and_then(|it| it.try_into().ok());
        if let Some(parent) = parent.and_then(Pid::from_raw)
            && !room.is_open()
            && parent != rustix::process::getpid()
        {
            broken = broken.or(privileged(parent)?);
        }
    }
    inside.kill()?;
    host::kill_all_with(&token);
    Ok(Verdict::broken_if(broken))
}

/// In what way `pid` is more than it should be.
fn privileged(pid: Pid) -> Result<Option<String>, Failed> {
    let (users, groups) = (host::status(pid, "Uid")?, host::status(pid, "Gid")?);
    let also = host::status(pid, "Groups")?;
    let fine = if host::is_root() {
        users.iter().chain(&groups).chain(&also).all(|id| FIRST <= *id)
    } else {
        users.iter().all(|id| *id == getuid().as_raw())
            && groups.iter().all(|id| *id == getgid().as_raw())
    };
    Ok((!fine).then(|| format!("users {users:?}, groups {groups:?} and {also:?}")))
}
