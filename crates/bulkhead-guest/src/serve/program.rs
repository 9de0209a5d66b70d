//! Starts one program as the host asked.

use std::{ffi::CString, io, os::fd::OwnedFd, rc::Rc};

use bulkhead_linux::launch::{ControllingTerminal, LaunchFailed, Program, Stage, launch};
use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, ioctl_fionbio},
    pipe::{PipeFlags, pipe_with},
    process::Pid,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::channels::{Channels, Ends, Kind};
use crate::{
    control::Control,
    protocol::{Start, Stdio},
};

/// Where programs are looked for when nobody says.
const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// A program that runs.
pub(super) struct Started {
    pub(super) pid: Pid,
    /// The other end of its terminal, if that is for the host.
    pub(super) hand_over: Option<OwnedFd>,
    /// The other end of its terminal, if that is carried.
    pub(super) terminal: Option<Rc<OwnedFd>>,
    /// The channels that carry what it writes.
    pub(super) carried: Vec<u32>,
}

/// Starts it, and carries its streams if it is asked to.
pub(super) fn start(
    start: Start,
    control: &mut Control,
    channels: &mut Channels,
) -> Result<Started, LaunchFailed> {
    let unprepared = |source| LaunchFailed { stage: Stage::Prepare, source };
    let (stdio, ours) = streams(&start.stdio, control).map_err(unprepared)?;
    let terminal = match ours {
        Ours::Nothing | Ours::Pipes(_) => ControllingTerminal::None,
        Ours::Terminal(_) => ControllingTerminal::Input,
    };
    let program = Program {
        candidates: candidates(&start),
        argv: texts(start.argv),
        env: texts(start.env),
        dir: text(start.dir),
        stdio,
        terminal,
    };
    let pid = launch(program)?;
    let mut started = Started { pid, hand_over: None, terminal: None, carried: Vec::new() };
    match (start.stdio, ours) {
        (Stdio::Carried { stdin, stdout, stderr }, Ours::Pipes([input, output, errors])) => {
            if let (Some(channel), Some(input)) = (stdin, input) {
                channels.open(channel, Kind::Pipe, Ends::Sink(input));
            }
            for (channel, file) in [(stdout, output), (stderr, errors)] {
                if let Some(file) = file {
                    channels.open(channel, Kind::Pipe, Ends::Source(file));
                    started.carried.push(channel);
                }
            }
        }
        (Stdio::CarriedTerminal { channel, .. }, Ours::Terminal(host)) => {
            let host = Rc::new(host);
            channels.open(channel, Kind::Terminal, Ends::Both(Rc::clone(&host)));
            started.carried.push(channel);
            started.terminal = Some(host);
        }
        (_, Ours::Terminal(host)) => started.hand_over = Some(host),
        (_, Ours::Nothing | Ours::Pipes(_)) => {}
    }
    Ok(started)
}

/// The guest's ends of what a program reads and writes.
enum Ours {
    Nothing,
    Pipes([Option<OwnedFd>; 3]),
    Terminal(OwnedFd),
}

fn streams(stdio: &Stdio, control: &mut Control) -> io::Result<([OwnedFd; 3], Ours)> {
    match *stdio {
        Stdio::Descriptors => {
            let mut next = || {
                let came = control.descriptor();
                came.ok_or_else(|| io::Error::other("a program came without its streams"))
            };
            Ok(([next()?, next()?, next()?], Ours::Nothing))
        }
        Stdio::Terminal(size) => {
            terminal(size).map(|(theirs, host)| (theirs, Ours::Terminal(host)))
        }
        Stdio::Carried { stdin, .. } => {
            let (theirs, ours) = pipes(stdin)?;
            Ok((theirs, Ours::Pipes(ours)))
        }
        Stdio::CarriedTerminal { size, .. } => {
            let (theirs, host) = terminal(size)?;
            ioctl_fionbio(&host, true)?;
            Ok((theirs, Ours::Terminal(host)))
        }
    }
}

/// Pipes for a program: its ends, and ours, which never block.
fn pipes(stdin: Option<u32>) -> io::Result<([OwnedFd; 3], [Option<OwnedFd>; 3])> {
    let (input, writer) = if stdin.is_some() {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&ours, true)?;
        (theirs, Some(ours))
    } else {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        (rustix::fs::open("/dev/null", flags, Mode::empty())?, None)
    };
    let reader = || {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&ours, true)?;
        Ok::<_, Errno>((ours, theirs))
    };
    let ((stdout, output), (stderr, errors)) = (reader()?, reader()?);
    Ok(([input, output, errors], [writer, Some(stdout), Some(stderr)]))
}

/// A new terminal of the sandbox's own: the program's ends, and the host's.
fn terminal(size: (u16, u16)) -> io::Result<([OwnedFd; 3], OwnedFd)> {
    let host = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&host)?;
    unlockpt(&host)?;
    resize(&host, size)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(ptsname(&host, Vec::new())?, flags, Mode::empty())?;
    let copy = || rustix::io::fcntl_dupfd_cloexec(&program, 3);
    Ok(([copy()?, copy()?, copy()?], host))
}

/// Tells a terminal its lines and columns.
pub(super) fn resize(terminal: &OwnedFd, (rows, columns): (u16, u16)) -> Result<(), Errno> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size)
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
