//! Many rooms that do nothing.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bulkhead_engine::rooms::Client;
use serde::Serialize;

use crate::bench::rooms::site::{Site, exec};
use crate::bench::table::Table;
use crate::leaks::Watch;
use crate::print;
use crate::processes::{self, Processes};
use crate::trouble::{OrTrouble, Trouble};

/// How long the kernel may take for what it ends after the last process.
const PATIENCE: Duration = Duration::from_secs(10);

/// What many rooms weigh, and how they end.
#[derive(Serialize)]
pub(super) struct Crowd {
    pub(super) count: u32,
    pub(super) seconds_until_all_live: f64,
    /// Shim and guest, by PSS.
    pub(super) kib_each: f64,
    pub(super) seconds_until_none_is_left: f64,
    pub(super) leaks: usize,
}

impl Crowd {
    pub(super) fn measure(site: &Site, count: u32) -> Result<Self, Trouble> {
        site.runtime.block_on(async {
            // One life before the count starts: what is made once and stays is not a leak.
            let first = site.make("first").await?;
            site.end("first", &first).await?;
            let watch = Watch::start(&site.bulkhead, watched(site))?;
            print::progress(&format!("making {count} rooms"));
            let (before, mut rooms) = (Instant::now(), Vec::new());
            for number in 0..count {
                let id = format!("crowd-{number}");
                let client = site.make(&id).await?;
                rooms.push((id, client));
            }
            let lived = before.elapsed();
            let kib_each = weigh(&rooms).await? / f64::from(count);
            print::progress("ending them all");
            let ended = end_all(&rooms).await?;
            forget_all(site, &rooms)?;
            let leaks = watch.leaks(PATIENCE)?;
            if !leaks.is_empty() {
                print::result(&format!("left behind (+) or gone (-):\n{leaks}"))?;
            }
            Ok(Self {
                count,
                seconds_until_all_live: lived.as_secs_f64(),
                kib_each,
                seconds_until_none_is_left: ended.as_secs_f64(),
                leaks: leaks.count(),
            })
        })
    }
}

/// Where a room could leave a file.
fn watched(site: &Site) -> Vec<PathBuf> {
    let system = ["/run/bulkhead", "/var/lib/bulkhead", "/run/netns"];
    let own = site.scratch.path().to_owned();
    system.into_iter().map(PathBuf::from).chain([own]).collect()
}

/// KiB of all shims and guests together.
async fn weigh(rooms: &[(String, Client)]) -> Result<f64, Trouble> {
    let all = Processes::now()?;
    let mut sum: u64 = 0;
    for (id, client) in rooms {
        let info = client.inspect().await.or_trouble(|| format!("`{id}` does not answer"))?;
        for process in all.tree_of(info.shim) {
            sum += processes::proportional_kib(process.identity.pid).unwrap_or(0);
        }
    }
    Ok(Duration::from_secs(sum).as_secs_f64())
}

/// Runs a program in each of them, at once.
pub(super) async fn use_all(rooms: &[(String, Client)]) -> Result<(), Trouble> {
    let mut running = tokio::task::JoinSet::new();
    for (_, client) in rooms {
        let client = client.clone();
        running.spawn(async move { exec(&client, &["/bin/true"]).await });
    }
    while let Some(ran) = running.join_next().await {
        ran.or_trouble(|| "could not wait for a program".to_owned())??;
    }
    Ok(())
}

/// Ends all of them at once, until no shim is left.
pub(super) async fn end_all(rooms: &[(String, Client)]) -> Result<Duration, Trouble> {
    let before = Instant::now();
    let mut ending = tokio::task::JoinSet::new();
    for (_, client) in rooms {
        let client = client.clone();
        ending.spawn(async move { client.end(Duration::ZERO).await });
    }
    while let Some(ended) = ending.join_next().await {
        let ended = ended.or_trouble(|| "could not wait for an end".to_owned())?;
        ended.or_trouble(|| "could not end a room".to_owned())?;
    }
    Ok(before.elapsed())
}

/// Forgets rooms that have ended.
pub(super) fn forget_all(site: &Site, rooms: &[(String, Client)]) -> Result<(), Trouble> {
    rooms.iter().try_for_each(|(id, _)| {
        site.journal.forget(id).or_trouble(|| format!("could not forget `{id}`"))
    })
}

impl fmt::Display for Crowd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["many at once", "figure"]);
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        row("rooms", self.count.to_string());
        row("until all live", format!("{:.1} s", self.seconds_until_all_live));
        row("shim and guest, PSS each", format!("{:.0} KiB", self.kib_each));
        row("until none is left", format!("{:.2} s", self.seconds_until_none_is_left));
        row("left behind", self.leaks.to_string());
        write!(out, "{table}")
    }
}
