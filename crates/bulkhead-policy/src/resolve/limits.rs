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
        memory: pick("memory", Some(LEAST_MEMORY), asked.memory, top.memory, or.memory)?,
        cpus: pick("CPUs", None, asked.cpus, top.cpus, or.cpus)?,
        pids: pick("processes", Some(LEAST_PIDS), asked.pids, top.pids, or.pids)?,
        disk: pick("disk", Some(LEAST_DISK), asked.disk, top.disk, or.disk)?,
        inodes: pick("inodes", Some(LEAST_INODES), asked.inodes, top.inodes, or.inodes)?,
        cpu_time: pick(
            "CPU time",
            Some(LEAST_TIME),
            asked.cpu_time,
            top.cpu_time,
            or.cpu_time,
        )?,
        timeout: pick("time", Some(LEAST_TIME), asked.timeout, top.timeout, or.timeout)?,
        output: pick("output", Some(Bytes(1)), asked.output, top.output, or.output)?,
        files: pick("open files", Some(LEAST_FILES), asked.files, top.files, or.files)?,
    })
}

fn pick<T: Copy + Ord + Display>(
    what: &'static str,
    least: Option<T>,
    asked: Option<T>,
    ceiling: Option<T>,
    default: Option<T>,
) -> Result<Option<T>, Denial> {
    let Some(asked) = asked else {
        return Ok(match (default, ceiling) {
            (Some(default), Some(ceiling)) => Some(default.min(ceiling)),
            (limit, None) | (None, limit) => limit,
        });
    };
    let shown = asked.to_string();
    if let Some(ceiling) = ceiling.filter(|it| *it < asked) {
        return Err(Denial::TooMuch { what, asked: shown, ceiling: ceiling.to_string() });
    }
    if let Some(least) = least.filter(|it| asked < *it) {
        return Err(Denial::TooLittle { what, asked: shown, least: least.to_string() });
    }
    Ok(Some(asked))
}
