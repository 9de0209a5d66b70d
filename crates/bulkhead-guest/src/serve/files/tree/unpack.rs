//! Makes what comes as records.

use rustix::{
    fs::{CWD, Mode, fchmod, futimens, mkdirat, symlinkat},
    io::Errno,
};

use super::{
    super::{
        Refused, Task,
        names::{self, make_dirs},
    },
    join,
};
use crate::{
    filling::{Filling, clear},
    protocol::files::{Facts, Kind, MOST_RECORD, Record},
    wire::{Arrived, Frame, Inbox},
};

/// Makes what comes at `top`.
pub(in super::super) fn unpack(top: &[u8], task: &Task) -> Result<(), Refused> {
    let pipe = task.pipe()?;
    let mut inbox = Inbox::new(MOST_RECORD);
    let mut making = Making { top, file: None, dirs: Vec::new(), ended: false };
    while inbox.fill_plain(pipe)? == Arrived::Some {
        loop {
            match inbox.frame::<Record>()? {
                None => break,
                Some(Frame::Message(record)) => making.record(record)?,
                Some(Frame::Data { bytes, .. }) => making.bytes(bytes)?,
            }
        }
    }
    if !making.ended || !task.is_committed() {
        return Err(Errno::CANCELED.into());
    }
    making.finish()
}

struct Making<'a> {
    top: &'a [u8],
    /// The file whose bytes come.
    file: Option<(Filling, Facts)>,
    /// Directories that get their permissions and times when all is in them.
    dirs: Vec<(Vec<u8>, Facts)>,
    ended: bool,
}

impl Making<'_> {
    fn record(&mut self, record: Record) -> Result<(), Refused> {
        match record {
            Record::Entry { path, facts } => {
                if path.split(|it| *it == b'/').any(|it| it == b"..") {
                    return Err(Errno::INVAL.into());
                }
                self.entry(join(self.top, &path), facts)
            }
            Record::FileEnd => {
                let (file, facts) = self.file.take().ok_or(Errno::INVAL)?;
                let file = file.finish()?;
                fchmod(&file, Mode::from_raw_mode(facts.mode & 0o777))?;
                Ok(futimens(&file, &names::times(facts.modified))?)
            }
            Record::End => {
                self.ended = true;
                Ok(())
            }
            Record::Skipped { .. } | Record::Changed { .. } | Record::Overflow => {
                Err(Errno::INVAL.into())
            }
        }
    }

    fn entry(&mut self, path: Vec<u8>, facts: Facts) -> Result<(), Refused> {
        match facts.kind {
            Kind::Dir => {
                match mkdirat(CWD, &*path, Mode::from_raw_mode(0o700)) {
                    Ok(()) => self.dirs.push((path, facts)),
                    Err(Errno::EXIST) => {}
                    // The first one may lie in directories that are not there.
                    Err(Errno::NOENT) if self.dirs.is_empty() => make_dirs(&path, 0o755)?,
                    Err(errno) => return Err(errno.into()),
                }
                Ok(())
            }
            Kind::Link => {
                clear(CWD, &path)?;
                let target = facts.target.ok_or(Errno::INVAL)?;
                Ok(symlinkat(&*target, CWD, &*path)?)
            }
            Kind::File => {
                self.file = Some((Filling::fresh(CWD, &path)?, facts));
                Ok(())
            }
            Kind::Fifo | Kind::Socket | Kind::Device => Err(Errno::INVAL.into()),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let (file, _) = self.file.as_mut().ok_or(Errno::INVAL)?;
        Ok(file.add(bytes)?)
    }

    fn finish(self) -> Result<(), Refused> {
        for (path, facts) in self.dirs.into_iter().rev() {
            names::set(&path, Some(facts.mode & 0o777), Some(facts.modified))?;
        }
        Ok(())
    }
}
