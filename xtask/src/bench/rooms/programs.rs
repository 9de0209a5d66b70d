//! A program in a living room, by everybody who can run one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::bundle::Bundle;
use crate::bench::cgroup_parent::CgroupParent;
use crate::bench::dockerd::{Dockerd, IMAGE};
use crate::bench::rooms::site::{Site, exec};
use crate::bench::rooms::{Row, What};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

const TRUE: &str = "/bin/true";
/// Rounds that do not count.
const WARM_UP: u32 = 5;

/// By turns: without a room, in one over its socket, in one by the command; then freezing; then
/// Docker.
pub(super) fn measure(site: &Site, runs: u32, slow: u32) -> Result<Vec<Row>, Trouble> {
    let id = "bench-exec";
    let client = site.runtime.block_on(site.make(id))?;
    let mut times: [Vec<Duration>; 5] = Default::default();
    for round in 0..runs + WARM_UP {
        let fork = timed(|| run(programs::command(TRUE).stdin(Stdio::null())))?;
        let own = timed(|| site.runtime.block_on(exec(&client, &[TRUE])))?;
        let command = timed(|| run(&mut site.command(&["exec", id, TRUE])))?;
        let failed = || "could not freeze a room".to_owned();
        let pause = timed(|| site.runtime.block_on(client.pause()).or_trouble(failed))?;
        let resume = timed(|| site.runtime.block_on(client.resume()).or_trouble(failed))?;
        if WARM_UP <= round {
            let round = [fork, own, command, pause, resume];
            times.iter_mut().zip(round).for_each(|(times, it)| times.push(it));
        }
    }
    site.runtime.block_on(site.end(id, &client))?;
    let [fork, own, command, pause, resume] = times;
    Ok(vec![
        Row::of(What::Fork, Ok(fork)),
        Row::of(What::Exec, Ok(own)),
        Row::of(What::ExecByCommand, Ok(command)),
        Row::of(What::DockerExec, docker(site, slow)),
        Row::of(What::Pause, Ok(pause)),
        Row::of(What::Resume, Ok(resume)),
    ])
}

/// `docker exec` in a container that idles.
fn docker(site: &Site, runs: u32) -> Result<Vec<Duration>, Trouble> {
    let cgroup = CgroupParent::new();
    let bundle = Bundle::make(&site.scratch, &cgroup.path())?;
    let dockerd = Dockerd::private(&site.scratch, &bundle, &cgroup)?;
    let docker = |args: &[&str]| {
        let mut command = programs::command("docker");
        command.args(args).envs(dockerd.env()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let name = "bulkhead-bench-exec";
    let start = ["run", "-d", "--rm", "--name", name, "--network", "none", IMAGE];
    let idle = ["/bin/busybox", "sleep", "1000"];
    run(&mut docker(&[&start[..], &idle[..]].concat()))?;
    let mut times = Vec::new();
    for round in 0..runs + WARM_UP {
        let took = timed(|| run(&mut docker(&["exec", name, "/bin/busybox", "true"])))?;
        if WARM_UP <= round {
            times.push(took);
        }
    }
    run(&mut docker(&["rm", "--force", name]))?;
    Ok(times)
}

pub(super) fn timed(what: impl FnOnce() -> Result<(), Trouble>) -> Result<Duration, Trouble> {
    let before = Instant::now();
    what()?;
    Ok(before.elapsed())
}

pub(super) fn run(command: &mut Command) -> Result<(), Trouble> {
    let name = command.get_program().to_owned();
    let ended =
        command.status().or_trouble(|| format!("could not start {}", name.display()))?;
    if ended.success() {
        return Ok(());
    }
    Err(Trouble::new(format!("{} failed: {ended}", name.display())))
}
