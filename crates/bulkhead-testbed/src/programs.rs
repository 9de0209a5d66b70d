//! Programs of the system.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::Reason;

/// Where programs of the system are.
const DIRS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Where a program of that name is, in the places of the system.
pub fn find(name: &str) -> Option<PathBuf> {
    DIRS.iter().map(|dir| Path::new(dir).join(name)).find(|it| it.exists())
}

/// A program of the system, which finds others of them.
pub fn command(name: &str) -> Result<Command, Reason> {
    let path = find(name).ok_or_else(|| format!("{name} is not installed"))?;
    #[expect(clippy::disallowed_methods, reason = "the daemon is what is tested against")]
    let mut command = Command::new(path);
    command.env("PATH", DIRS.join(":"));
    Ok(command)
}

/// What it says, as long as it succeeds.
pub fn output(command: &mut Command) -> Result<String, Reason> {
    let said = command.output();
    let said = said.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&said.stderr).trim().to_owned())
}
