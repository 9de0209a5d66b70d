//! llm-sandbox, which keeps a container of Docker for each session.

use bulkhead_testbed::{Dockerd, IMAGE, Setup};

use crate::bench::server::client::Samples;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::Trouble;

/// The same work by llm-sandbox, on a daemon of our own, in an image of this host's programs: each
/// call so often, and a file of so many MiB.
pub(super) fn measure(
    runs: u32,
    mebibytes: u32,
    scratch: &Scratch,
) -> Result<Samples, Trouble> {
    let python = programs::repository().join("target/peers/llm-sandbox/bin/python");
    if !python.exists() {
        return Err(Trouble::new("it is not installed (scripts/install-peers.sh)"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new("a private daemon needs root"));
    }
    let dockerd = Dockerd::ready(Setup::new("bulkhead-bench-peer")).map_err(Trouble::new)?;
    let drive = programs::repository().join("xtask/src/bench/server/llm.py");
    let said = programs::output(
        programs::command(&python)
            .arg(drive)
            .args([runs.to_string(), mebibytes.to_string(), IMAGE.to_owned()])
            .env("DOCKER_HOST", dockerd.address())
            .current_dir(scratch.path()),
    )?;
    Samples::read(&said)
}
