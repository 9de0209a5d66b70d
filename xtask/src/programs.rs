//! Where the programs are that a chore starts, and the one place where it starts them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::trouble::{OrTrouble, Trouble};

/// Searched before the caller's `PATH`, so that a shim of a version manager (a shell script that
/// takes longer than a sandbox) is not what we measure.
const SYSTEM_DIRS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// A command that is about to be described.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask starts peers and tools on the host, outside of any backend"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Where `name` is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let callers = caller_path();
    SYSTEM_DIRS
        .iter()
        .map(PathBuf::from)
        .chain(env::split_paths(&callers))
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

/// The `PATH` that this chore was started with.
pub(crate) fn caller_path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// The home of whoever started this chore.
pub(crate) fn caller_home() -> OsString {
    env::var_os("HOME").unwrap_or_default()
}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The system's directories as a `PATH`.
pub(crate) fn system_path() -> String {
    SYSTEM_DIRS.join(":")
}

/// Runs a program to its end; what it wrote to stdout, or what went wrong.
pub(crate) fn output(command: &mut Command) -> Result<String, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .or_trouble(|| format!("could not start `{name}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = last_line(&String::from_utf8_lossy(&output.stderr));
    Err(Trouble::new(format!("`{name}` ended with {}: {said}", output.status)))
}

/// Runs a program to its end, which must be a success; what it writes is for the person who waits.
pub(crate) fn run(command: &mut Command) -> Result<(), Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .or_trouble(|| format!("could not start `{name}`"))?;
    if status.success() {
        return Ok(());
    }
    Err(Trouble::new(format!("`{name}` ended with {status}")))
}

/// Like [`output`], for a program that takes long and says on stderr how far it is.
pub(crate) fn output_with_progress(command: &mut Command) -> Result<String, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .or_trouble(|| format!("could not start `{name}`"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Trouble::new(format!("`{name}` ended with {}", output.status)))
}

/// The last line that says something, cut to a length that fits a table.
pub(crate) fn last_line(text: &str) -> String {
    const LONGEST: usize = 160;
    let line =
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    line.chars().filter(|it| !it.is_control()).take(LONGEST).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
