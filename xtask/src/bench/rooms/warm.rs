//! Rooms that were made ahead.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::bench::rooms::site::{Site, exec};
use crate::bench::rooms::{Row, What};
use crate::programs;
use crate::trouble::{OrTrouble, Trouble};

const TRUE: &str = "/bin/true";
/// How many wait at one time.
const BATCH: u32 = 20;
/// How many times as often it is done on a busy machine, where it is asked how long the slowest of a
/// hundred take: of too few, that is a matter of luck.
const OFTEN: u32 = 3;

/// A room and its first program: made ahead, on a quiet machine and on a busy one, and made when it is
/// wanted.
pub(super) fn measure(site: &Site, runs: u32) -> Result<Vec<Row>, Trouble> {
    let warm = Row::of(What::Warm, warm(site, "q", runs));
    let busy = Busy::begin()?;
    let hurried = Row::of(What::WarmBusy, self::warm(site, "b", runs * OFTEN));
    drop(busy);
    let cold = Row::of(What::Cold, cold(site, runs.min(50)));
    Ok(vec![warm, hurried, cold])
}

fn warm(site: &Site, prefix: &str, runs: u32) -> Result<Vec<Duration>, Trouble> {
    site.runtime.block_on(async {
        let mut times = Vec::new();
        for batch in 0..runs.div_ceil(BATCH) {
            let mut ids = Vec::new();
            for number in 0..BATCH.min(runs - batch * BATCH) {
                let id = format!("{prefix}{batch}-{number}");
                site.park(&id).await?;
                ids.push(id);
            }
            for _ in &ids {
                let before = Instant::now();
                let client = site.take().await?;
                exec(&client, &[TRUE]).await?;
                times.push(before.elapsed());
            }
            for id in &ids {
                let client = bulkhead_engine::rooms::Client::new(site.journal.socket(id));
                site.end(id, &client).await?;
            }
        }
        Ok(times)
    })
}

fn cold(site: &Site, runs: u32) -> Result<Vec<Duration>, Trouble> {
    site.runtime.block_on(async {
        let mut times = Vec::new();
        for number in 0..runs {
            let id = format!("cold-{number}");
            let before = Instant::now();
            let client = site.make(&id).await?;
            exec(&client, &[TRUE]).await?;
            times.push(before.elapsed());
            site.end(&id, &client).await?;
        }
        Ok(times)
    })
}

/// Keeps every core busy until it is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Result<Self, Trouble> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let mut command = programs::command("/bin/sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().or_trouble(|| "could not keep a core busy".to_owned())
        };
        Ok(Self((0..cores).map(spin).collect::<Result<_, _>>()?))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
