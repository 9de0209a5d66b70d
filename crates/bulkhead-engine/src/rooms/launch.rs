//! Starts a shim.

use std::{io, path::Path, process::Stdio};

use serde::Serialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use super::{
    admission::{Admission, Busy},
    journal::Record,
};

/// The room did not come to be.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The shim could not be started, or ended without a word.
    #[error("could not start the shim of the room")]
    System(#[source] io::Error),
    /// The host has no place for it now.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The shim said why, in the form in which the command writes failures.
    #[error("the room could not be made: {}", said(.0))]
    Refused(Value),
}

impl LaunchError {
    /// Nobody said what is wrong.
    pub(super) fn silent() -> Self {
        Self::System(io::Error::other("it ended before it could say what is wrong"))
    }
}

/// Starts `program` (Bulkhead itself) as the shim of the room of `record`, and returns when the
/// room can be talked to. Nothing is begun that the host would not bear.
pub async fn launch(
    program: &Path,
    record: &Record,
    admission: &Admission,
) -> Result<(), LaunchError> {
    admission.check()?;
    let answers = shims(program, record, Heard::All).await?;
    let answer = answers.into_iter().next().unwrap_or_default();
    if answer.get("ready").is_some() {
        return Ok(());
    }
    if answer.get("error").is_some() {
        return Err(LaunchError::Refused(answer));
    }
    Err(LaunchError::silent())
}

/// When enough was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// When nobody is left who could say anything.
    All,
    /// When so many have spoken.
    From(usize),
}

/// Starts `program` (Bulkhead itself) as the shim of what is `wanted`, a record or a list of them,
/// and returns what each had to say.
#[expect(
    clippy::disallowed_methods,
    reason = "this is Bulkhead itself, not a program of a user"
)]
pub(super) async fn shims(
    program: &Path,
    wanted: &impl Serialize,
    enough: Heard,
) -> Result<Vec<Value>, LaunchError> {
    let system = LaunchError::System;
    let mut shim = Command::new(program)
        .arg("shim")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(system)?;
    let text = serde_json::to_vec(wanted).map_err(|error| system(error.into()))?;
    if let Some(mut stdin) = shim.stdin.take() {
        stdin.write_all(&text).await.map_err(system)?;
    }
    let mut answers: Vec<Value> = Vec::new();
    if let Some(stdout) = shim.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while enough != Heard::From(answers.len())
            && let Some(line) = lines.next_line().await.map_err(system)?
        {
            answers.extend(serde_json::from_str::<Value>(&line));
        }
    }
    if !answers.iter().any(|it| it.get("ready").is_some()) {
        shim.wait().await.map_err(system)?;
    }
    Ok(answers)
}

fn said(answer: &Value) -> &str {
    answer.pointer("/error/message").and_then(Value::as_str).unwrap_or_default()
}
