//! The server under test, and the client that measures it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::bench::server::ServerArgs;
use crate::bench::stats::Summary;
use crate::print;
use crate::programs;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// How many rooms wait, where some do.
const POOL: u32 = 8;

/// What a client measured.
#[derive(Deserialize)]
pub(super) struct Samples {
    /// Milliseconds by what took them.
    #[serde(default)]
    times: BTreeMap<String, Vec<f64>>,
    /// What passes or happens in a second.
    #[serde(default)]
    rates: BTreeMap<String, f64>,
    /// Seconds by what took them, once.
    #[serde(default)]
    seconds: BTreeMap<String, f64>,
}

impl Samples {
    pub(super) fn read(json: &str) -> Result<Self, Trouble> {
        serde_json::from_str(json).or_trouble(|| "the client printed no samples".to_owned())
    }

    pub(super) fn summaries(&self) -> Vec<(String, Summary)> {
        let summary = |samples: &[f64]| {
            let duration = |it: &f64| Duration::try_from_secs_f64(it / 1e3).unwrap_or_default();
            Summary::of(&samples.iter().map(duration).collect::<Vec<_>>())
        };
        let known = self.times.iter().map(|(what, it)| Some((what.clone(), summary(it)?)));
        known.flatten().collect()
    }

    /// What was measured once, with its unit.
    pub(super) fn figures(&self) -> Vec<(String, f64, &'static str)> {
        let rates = self.rates.iter().map(|(what, it)| (what.clone(), *it, "MiB/s"));
        let seconds = self.seconds.iter().map(|(what, it)| (what.clone(), *it, "s"));
        rates.chain(seconds).collect()
    }

    /// All that both measured.
    fn and(mut self, other: Self) -> Self {
        self.times.extend(other.times);
        self.rates.extend(other.rates);
        self.seconds.extend(other.seconds);
        self
    }
}

/// A server that serves only us; `Drop` ends it. Its rooms end with their lifetimes, or were ended.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// One that keeps `pool` rooms waiting.
    fn start(bulkhead: &Path, home: &Path, pool: u32) -> Result<Self, Trouble> {
        let unstartable = || format!("could not start `{} serve`", bulkhead.display());
        let mut child = command(bulkhead, home)
            .args(["serve", "--listen", "127.0.0.1:0", "--pool", &pool.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .or_trouble(unstartable)?;
        let told = child.stderr.take().ok_or_else(|| Trouble::new(unstartable()))?;
        let mut server = Self { child, address: String::new() };
        let mut lines = BufReader::new(told).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            line.split_once("serving at ").map(|(_, address)| address.to_owned())
        });
        server.address = address.ok_or_else(|| Trouble::new(unstartable()))?;
        // What else it says is read, so that it can say it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let asked = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        if !asked {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}

fn command(bulkhead: &Path, home: &Path) -> Command {
    let mut command = programs::command(bulkhead);
    command
        .env_clear()
        .env("PATH", programs::system_path())
        .env("HOME", home)
        .env("BULKHEAD_HOME", home.join("records"))
        .current_dir(home);
    command
}

/// Measures a server of `bulkhead` through the SDK: one that makes rooms when they are wanted, and
/// one whose rooms wait.
pub(super) fn measure(
    args: &ServerArgs,
    bulkhead: &Path,
    scratch: &Scratch,
) -> Result<Samples, Trouble> {
    let numbers = [args.runs, args.seconds, args.file, args.rooms].map(|it| it.to_string());
    let [runs, ..] = &numbers;
    let cold = [&["cold".to_owned()], numbers.as_slice()].concat();
    let warm = ["warm".to_owned(), runs.clone(), bulkhead.display().to_string()];
    let home = scratch.dir("server")?;
    let cold = drive(bulkhead, &home, 0, &cold)?;
    print::progress("the same, with rooms that wait");
    Ok(cold.and(drive(bulkhead, &home, POOL, &warm)?))
}

/// What the client with `args` measures of a server that keeps `pool` rooms waiting.
fn drive(bulkhead: &Path, home: &Path, pool: u32, args: &[String]) -> Result<Samples, Trouble> {
    let python = programs::repository().join("target/sdks/python/bin/python");
    if !python.exists() {
        return Err(Trouble::new("the SDKs are not installed: run scripts/install-sdks.sh"));
    }
    let name = format!("bench-{pool}");
    let key = programs::output(command(bulkhead, home).args(["key", "create", &name]))?;
    let server = Server::start(bulkhead, home, pool)?;
    let script = programs::repository().join("xtask/src/bench/server/drive.py");
    let said = programs::output_with_progress(
        command(&python, home)
            .arg(script)
            .args(args)
            .env("E2B_API_KEY", key.trim())
            .env("E2B_API_URL", &server.address)
            .env("E2B_SANDBOX_URL", &server.address),
    );
    drop(server);
    // A client that failed may have left rooms.
    let left = programs::output(command(bulkhead, home).args(["ls", "--all", "--quiet"]))?;
    for room in left.lines() {
        programs::output(command(bulkhead, home).args(["rm", "--force", room]))?;
    }
    Samples::read(&said?)
}
