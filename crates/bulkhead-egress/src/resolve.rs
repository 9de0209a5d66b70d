//! The addresses of names.

mod files;
mod query;

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    path::PathBuf,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bulkhead_spec::HostName;

/// An answer that is on its way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Somebody who knows the addresses of names.
pub trait Resolver: Send + Sync {
    /// Every address of `name`. None at all is an error, as is every doubt.
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a>;
}

/// The host's own hosts file and name servers.
///
/// Answers are kept for as long as they say, at most half a minute.
pub struct SystemResolver {
    hosts: PathBuf,
    servers: PathBuf,
    kept: Mutex<HashMap<HostName, (Instant, Vec<IpAddr>)>>,
}

/// The longest that an answer is kept.
const LONGEST: Duration = Duration::from_secs(30);

/// The most answers that are kept.
const MOST: usize = 1024;

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new("/etc/hosts", "/etc/resolv.conf")
    }
}

impl SystemResolver {
    /// Reads `hosts` and `servers` anew for each name that it does not know.
    pub fn new(hosts: impl Into<PathBuf>, servers: impl Into<PathBuf>) -> Self {
        Self { hosts: hosts.into(), servers: servers.into(), kept: Mutex::default() }
    }

    fn kept(&self, name: &HostName) -> Option<Vec<IpAddr>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(name).filter(|(until, _)| Instant::now() < *until).map(|(_, it)| it.clone())
    }

    fn keep(&self, name: &HostName, answer: &query::Answer) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            let now = Instant::now();
            kept.retain(|_, (until, _)| now < *until);
        }
        if kept.len() < MOST {
            let until = Instant::now() + answer.lifetime.min(LONGEST);
            kept.insert(name.clone(), (until, answer.addresses.clone()));
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a HostName) -> Resolving<'a> {
        Box::pin(async move {
            if let Some(addresses) = self.kept(name) {
                return Ok(addresses);
            }
            let listed = files::hosts(&self.hosts, name).await;
            if !listed.is_empty() {
                return Ok(listed);
            }
            let servers = files::servers(&self.servers).await;
            let answer = query::ask(&servers, name).await?;
            self.keep(name, &answer);
            Ok(answer.addresses)
        })
    }
}

/// Reads what a name server said, for fuzzers.
pub(crate) fn read_answer(bytes: &[u8]) -> usize {
    query::read_any(bytes).map_or(0, |it| it.addresses.len())
}
