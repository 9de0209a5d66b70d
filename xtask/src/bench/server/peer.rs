//! llm-sandbox, which keeps a container of Docker for each session.

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::bench::dockerd::Dockerd;
use crate::bench::server::client::Samples;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::Trouble;

/// The same work by llm-sandbox, on a daemon of our own.
pub(super) fn measure(runs: u32, scratch: &Scratch) -> Result<Samples, Trouble> {
    let python = programs::repository().join("target/peers/llm-sandbox/bin/python");
    if !python.exists() {
        return Err(Trouble::new("it is not installed (scripts/install-peers.sh)"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Trouble::new("a private daemon needs root"));
    }
    let cgroup = CgroupParent::new();
    let bundle = Bundle::make(scratch, &cgroup.path())?;
    let dockerd = Dockerd::private(scratch, &bundle, &cgroup)?;
    let drive = programs::repository().join("xtask/src/bench/server/llm.py");
    let said = programs::output(
        programs::command(&python)
            .arg(drive)
            .arg(runs.to_string())
            .envs(dockerd.env())
            .current_dir(scratch.path()),
    )?;
    Samples::read(&said)
}
