//! Starts one program as the host asked.

use std::{ffi::CString, io, os::fd::OwnedFd};

use bulkhead_linux::launch::{ControllingTerminal, LaunchFailed, Program, Stage, launch};
use rustix::{
    fs::{Mode, OFlags},
    process::Pid,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{protocol::Start, wire::Inbox};

/// Where programs are looked for when nobody says.
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Starts it; returns its process and the host's end of its terminal, if it has one.
pub(super) fn start(
    start: Start,
    inbox: &mut Inbox,
) -> Result<(Pid, Option<OwnedFd>), LaunchFailed> {
    let (stdio, terminal) = match start.terminal {
        Some(size) => terminal(size).map(|(stdio, host)| (stdio, Some(host))),
        None => streams(inbox).map(|stdio| (stdio, None)),
    }
    .map_err(|source| LaunchFailed { stage: Stage::Prepare, source })?;
    let controlling =
        if terminal.is_some() { ControllingTerminal::Input } else { ControllingTerminal::None };
    let program = Program {
        candidates: candidates(&start),
        argv: texts(start.argv),
        env: texts(start.env),
        dir: text(start.dir),
        stdio,
        terminal: controlling,
    };
    Ok((launch(&program)?, terminal))
}

fn streams(inbox: &mut Inbox) -> io::Result<[OwnedFd; 3]> {
    let mut next = || {
        inbox.descriptor().ok_or_else(|| io::Error::other("a program came without its streams"))
    };
    Ok([next()?, next()?, next()?])
}

/// A new terminal of the sandbox's own: the program's ends, and the host's.
fn terminal((rows, columns): (u16, u16)) -> io::Result<([OwnedFd; 3], OwnedFd)> {
    let host = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&host)?;
    unlockpt(&host)?;
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&host, size)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(ptsname(&host, Vec::new())?, flags, Mode::empty())?;
    let copy = || rustix::io::fcntl_dupfd_cloexec(&program, 3);
    Ok(([copy()?, copy()?, copy()?], host))
}

/// Every place where the program may be: its own path, or one for each directory of PATH.
fn candidates(start: &Start) -> Vec<CString> {
    let Some(name) = start.argv.first() else { return Vec::new() };
    if name.contains(&b'/') {
        return vec![text(name.clone())];
    }
    let path = start.env.iter().find_map(|it| it.strip_prefix(b"PATH="));
    let dirs = path.unwrap_or(PATH).split(|it| *it == b':').filter(|it| it.starts_with(b"/"));
    dirs.map(|dir| text([dir, b"/", name].concat())).collect()
}

fn texts(texts: Vec<Vec<u8>>) -> Vec<CString> {
    texts.into_iter().map(text).collect()
}

/// The policy lets no NUL through; were there one, the text would end there.
fn text(bytes: Vec<u8>) -> CString {
    CString::new(bytes).unwrap_or_else(|error| {
        let end = error.nul_position();
        let mut bytes = error.into_vec();
        bytes.truncate(end);
        CString::new(bytes).unwrap_or_default()
    })
}
