//! Ceilings and floors.

use std::{fmt::Display, time::Duration};

use bulkhead_spec::{Bytes, Limits, Span};

use crate::{Denial, Policy};

/// What a sandbox needs to start at all: the guest, and a program that links the C library.
const LEAST_MEMORY: Bytes = Bytes(8 << 20);
const LEAST_DISK: Bytes = Bytes(1 << 20);
const LEAST_INODES: u64 = 64;
const LEAST_PIDS: u32 = 2;
const LEAST_FILES: u32 = 16;
const LEAST_TIME: Span = Span(Duration::from_millis(1));

/// Each limit that was asked for if it is allowed, else the default, never above the ceiling.
pub(super) fn resolve(asked: Limits, policy: &Policy) -> Result<Limits, Denial> {
    let Policy { ceiling: top, defaults: or, .. } = policy;
    Ok(Limits {
        memory: pick("of memory", Some(LEAST_MEMORY), asked.memory, top.memory, or.memory)?,
        cpus: pick("CPUs", None, asked.cpus, top.cpus, or.cpus)?,
        pids: pick("processes", Some(LEAST_PIDS), asked.pids, top.pids, or.pids)?,
        disk: pick("of disk", Some(LEAST_DISK), asked.disk, top.disk, or.disk)?,
        inodes: pick("inodes", Some(LEAST_INODES), asked.inodes, top.inodes, or.inodes)?,
        cpu_time: pick(
            "of CPU time",
            Some(LEAST_TIME),
            asked.cpu_time,
            top.cpu_time,
            or.cpu_time,
        )?,
        timeout: pick("of time", Some(LEAST_TIME), asked.timeout, top.timeout, or.timeout)?,
        output: pick("of output", Some(Bytes(1)), asked.output, top.output, or.output)?,
        files: pick("open files", Some(LEAST_FILES), asked.files, top.files, or.files)?,
    })
}

/// `what` is said after a number: `asked for 3 processes`, `asked for 1 GiB of memory`.
fn pick<T: Copy + Ord + Display>(
    what: &'static str,
    least: Option<T>,
    asked: Option<T>,
    ceiling: Option<T>,
    default: Option<T>,
) -> Result<Option<T>, Denial> {
    let limit = match (asked, default, ceiling) {
        (Some(asked), _, Some(ceiling)) if ceiling < asked => {
            let (asked, ceiling) = (asked.to_string(), ceiling.to_string());
            return Err(Denial::TooMuch { what, asked, ceiling });
        }
        (Some(asked), _, _) => Some(asked),
        (None, Some(default), Some(ceiling)) => Some(default.min(ceiling)),
        (None, limit, None) | (None, None, limit) => limit,
    };
    check_floor(what, least, limit)?;
    Ok(limit)
}

/// Holds for what a policy says too: a sandbox that cannot start is refused with a reason, not
/// built to die.
fn check_floor<T: Ord + Display>(
    what: &'static str,
    least: Option<T>,
    limit: Option<T>,
) -> Result<(), Denial> {
    match (limit, least) {
        (Some(limit), Some(least)) if limit < least => {
            let (limit, least) = (limit.to_string(), least.to_string());
            let what = what.trim_start_matches("of ");
            Err(Denial::TooLittle { what, limit, least })
        }
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// How long a program may run, given what it asks for and what its sandbox allows.
pub(crate) fn timeout(
    asked: Option<Span>,
    ceiling: Option<Span>,
) -> Result<Option<Span>, Denial> {
    pick("of time", Some(LEAST_TIME), asked, ceiling, None)
}
