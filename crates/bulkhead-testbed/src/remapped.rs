//! A place where a user exists that owns a range of ids: a mount namespace with lists of its own.
//! The host's are not touched.

use std::{
    fs, io,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::{Reason, command, find};

/// What the user is called.
pub const NAME: &str = "testbed";
/// The first of its ids.
pub const FIRST: u32 = 900_000;

/// Lays the lists over the host's and becomes what it is given.
const SCRIPT: &str = r#"
for name in passwd group; do mount --bind "$BED/$name" "/etc/$name"; done
for name in subuid subgid; do mount --bind "$BED/subids" "/etc/$name"; done
unset BED
exec "$@"
"#;

/// Whether there can be such a place on this host.
pub fn is_possible() -> Result<(), Reason> {
    for name in ["newuidmap", "newgidmap"] {
        find(name).ok_or_else(|| format!("{name} is not installed (package uidmap)"))?;
    }
    for name in ["/etc/subuid", "/etc/subgid"] {
        if !Path::new(name).exists() {
            return Err(format!("there is no {name} (package uidmap makes it)"));
        }
    }
    Ok(())
}

/// Runs this program again, with these arguments, in such a place.
pub fn run_self(args: &[String]) -> Result<Output, Reason> {
    let text = |error: io::Error| error.to_string();
    let dir = tempfile::tempdir().map_err(text)?;
    write(dir.path(), 12_345, Path::new("/nonexistent")).map_err(text)?;
    let mut command = enter(dir.path())?;
    command.arg(std::env::current_exe().map_err(text)?).args(args).stdin(Stdio::null());
    command.output().map_err(text)
}

/// Writes the lists to `dir`: the user has the number `id`.
pub(crate) fn write(dir: &Path, id: u32, home: &Path) -> io::Result<()> {
    let home = home.display();
    let passwd = fs::read_to_string("/etc/passwd")?;
    fs::write(dir.join("passwd"), format!("{passwd}{NAME}:x:{id}:{id}::{home}:/bin/sh\n"))?;
    let group = fs::read_to_string("/etc/group")?;
    fs::write(dir.join("group"), format!("{group}{NAME}:x:{id}:\n"))?;
    fs::write(dir.join("subids"), format!("{NAME}:{FIRST}:65536\n"))
}

/// What is given to this command as arguments is run where the lists in `dir` are.
pub(crate) fn enter(dir: &Path) -> Result<Command, Reason> {
    is_possible()?;
    let mut unshare = command("unshare")?;
    unshare.args(["--mount", "--propagation", "private", "sh", "-ec", SCRIPT, "sh"]);
    unshare.env("BED", dir);
    Ok(unshare)
}
