//! `bench egress`: what the gateway costs, beside others who carry connections.
//!
//! One server on loopback, a client in a sandbox, all ways by turns: straight, by relays that look at
//! nothing and by proxies with an open network, and by the gateway.

pub(crate) mod client;
mod findings;
mod peers;
mod room;
mod setup;
mod splice;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::client::{Answer, Job, Way};
use self::findings::{Findings, Row};
use self::peers::Peer;
use self::room::Client;
use self::setup::Setup;
use self::world::{NAME, World};
use crate::bench::CommonArgs;
use crate::bench::machine::Machine;
use crate::bench::report::Report;
use crate::scratch::Scratch;
use crate::trouble::{OrTrouble, Trouble};

/// Throughput of a tunnel over that of the best plain relay in the same round, at the median.
pub(super) const TO_RELAY: &str = "egress.relay";
/// The same over that of the better proxy.
pub(super) const TO_PROXY: &str = "egress.proxy";
/// What a tunnel adds to a new connection.
pub(super) const TUNNELLED: &str = "egress.tunnelled";
/// What a connection that is read adds.
pub(super) const TERMINATED: &str = "egress.terminated";
/// Connections at one time that were all served.
pub(super) const CROWD: &str = "egress.crowd";
/// Memory after all requests over that after the first tenth.
pub(super) const MEMORY: &str = "egress.memory";
/// What rules add to the start of a sandbox.
pub(super) const SETUP: &str = "egress.setup";

const JUDGES: &[&str] = &[TO_RELAY, TO_PROXY, TUNNELLED, TERMINATED, CROWD, MEMORY, SETUP];

#[derive(Args)]
pub(crate) struct EgressArgs {
    /// How often each way takes its turn.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// New connections in one turn.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// For how many milliseconds bytes flow on one connection in one turn, at least.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    flow: u64,
    /// Connections at one time.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    crowd: u32,
    /// Requests in all, for the look at memory.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..))]
    requests: u32,
    /// Starts of each kind of sandbox.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    #[command(flatten)]
    common: CommonArgs,
}

/// A way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    Direct,
    Splice,
    Socat,
    Haproxy,
    Squid,
    Mitmproxy,
    Bulkhead,
    BulkheadConnect,
    DirectTls,
    MitmproxyTls,
    BulkheadTls,
}

impl Name {
    fn is_tls(self) -> bool {
        matches!(self, Self::DirectTls | Self::MitmproxyTls | Self::BulkheadTls)
    }

    /// The way from inside a sandbox; none for peers.
    fn inside(self, world: &World) -> Option<Way> {
        let at = |port: u16| format!("{NAME}:{port}");
        let straight =
            Way { at: at(world.plain), tunnel: None, trust: None, port: world.plain };
        match self {
            Self::Bulkhead => Some(straight),
            Self::BulkheadConnect => {
                let at = "127.0.0.1:3128".to_owned();
                Some(Way { tunnel: Some(straight.at.clone()), at, ..straight })
            }
            Self::BulkheadTls => {
                let trust = Some("/run/bulkhead/ca.crt".into());
                Some(Way { at: at(world.tls), tunnel: None, trust, port: world.tls })
            }
            Self::Direct
            | Self::Splice
            | Self::Socat
            | Self::Haproxy
            | Self::Squid
            | Self::Mitmproxy
            | Self::DirectTls
            | Self::MitmproxyTls => None,
        }
    }
}

pub(crate) fn run(args: &EgressArgs) -> Result<ExitCode, Trouble> {
    let machine = Machine::before_the_run();
    let bulkhead = args.common.bulkhead()?;
    let scratch = Scratch::new()?;
    let dir = scratch.path();
    scratch.dir("work")?;
    let shown = scratch.dir("shown")?;
    more_files()?;
    let world = World::start(&shown)?;
    let mut open = Client::open(&bulkhead, dir, &shown)?;
    let mut gated = Client::gated(&bulkhead, dir, &world)?;
    let mut field: Vec<Contestant> = Vec::new();
    for &name in Name::value_variants() {
        let found = match name.inside(&world) {
            Some(way) => Ok((way, None)),
            None => {
                Peer::start(name, &world, &shown).map(|peer| (peer.way.clone(), Some(peer)))
            }
        };
        let row = Row::new(name);
        field.push(match found {
            Ok((way, peer)) => Contestant { row, way: Some(way), _peer: peer },
            Err(why) => {
                let row = Row { note: why.sentence(), ..row };
                Contestant { row, way: None, _peer: None }
            }
        });
    }
    for _ in 0..args.rounds {
        for it in &mut field {
            let client =
                if it.row.name.inside(&world).is_some() { &mut gated } else { &mut open };
            it.take_turn(client, args);
        }
    }
    let rows = field.into_iter().map(|it| it.row).collect();
    let crowd = crowd(&mut gated, &world, args.crowd)?;
    let memory = memory(&mut gated, &world, args.requests)?;
    drop((open, gated));
    let setup = Setup::measure(&bulkhead, dir, args.starts)?;
    let machine = machine.after_the_run();
    let findings = Findings { machine, rows, crowd, memory, setup };
    let report = Report {
        section: "egress",
        text: findings.to_string(),
        measured: findings.measured(),
        data: &findings,
        judges: JUDGES,
    };
    report.deliver(&args.common)
}

struct Contestant {
    row: Row,
    way: Option<Way>,
    _peer: Option<Peer>,
}

impl Contestant {
    /// New connections, then many bytes on one. Whoever fails once says why and is out.
    fn take_turn(&mut self, client: &mut Client, args: &EgressArgs) {
        let Some(way) = &self.way else { return };
        let turn = (|| {
            let took = client.order(way, Job::Connections(args.connections))?;
            self.row.connections.extend(durations(took));
            if !self.row.name.is_tls() {
                self.row.flows.extend(rate(&client.order(way, Job::Flow(args.flow))?));
            }
            Ok::<(), Trouble>(())
        })();
        if let Err(why) = turn {
            self.row.note = why.sentence();
            self.way = None;
        }
    }
}

fn durations(answer: Answer) -> Vec<Duration> {
    match answer {
        Answer::Took(nanos) => nanos.into_iter().map(Duration::from_nanos).collect(),
        Answer::Flowed(..) | Answer::Served(_) | Answer::Failed(_) => Vec::new(),
    }
}

/// Gibibytes a second.
fn rate(answer: &Answer) -> Option<f64> {
    match answer {
        Answer::Flowed(bytes, nanos) => {
            let mebibytes = u32::try_from(bytes >> 20).map_or(f64::INFINITY, f64::from);
            Some(mebibytes / 1024.0 / Duration::from_nanos(*nanos).as_secs_f64())
        }
        Answer::Took(_) | Answer::Served(_) | Answer::Failed(_) => None,
    }
}

/// How many connections at one time are served.
fn crowd(inside: &mut Client, world: &World, count: u32) -> Result<u32, Trouble> {
    let way = Name::Bulkhead.inside(world).ok_or_else(|| Trouble::new("no way"))?;
    match inside.order(&way, Job::Crowd(count))? {
        Answer::Served(count) => Ok(count),
        Answer::Took(_) | Answer::Flowed(..) | Answer::Failed(_) => Ok(0),
    }
}

/// What the gateway weighs after a tenth of the requests, and after all of them.
#[derive(Clone, Copy, Serialize)]
struct Memory {
    requests: u32,
    early_kib: u64,
    late_kib: u64,
}

/// Requests that are read, which is what takes most.
fn memory(inside: &mut Client, world: &World, requests: u32) -> Result<Memory, Trouble> {
    let way = Name::BulkheadTls.inside(world).ok_or_else(|| Trouble::new("no way"))?;
    let weigh =
        |it: &Client| it.kib().ok_or_else(|| Trouble::new("the supervisor is not there"));
    inside.order(&way, Job::Requests(requests / 10))?;
    let early_kib = weigh(inside)?;
    inside.order(&way, Job::Requests(requests - requests / 10))?;
    Ok(Memory { requests, early_kib, late_kib: weigh(inside)? })
}

/// The server holds an end of each connection, and those who carry them two.
fn more_files() -> Result<(), Trouble> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.map_or(65536, |most| most.min(65536)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .or_trouble(|| "could not raise the limit of open files".to_owned())
}
