//! What the host's files say about names.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use bulkhead_spec::HostName;

/// The addresses that a hosts file lists for `name`; none if it cannot be read.
pub(super) async fn hosts(file: &Path, name: &HostName) -> Vec<IpAddr> {
    let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
    text.lines().filter_map(|line| listed(line, name)).collect()
}

fn listed(line: &str, name: &HostName) -> Option<IpAddr> {
    let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    words.any(|it| it.parse().is_ok_and(|it: HostName| it == *name)).then_some(address)
}

/// The name servers of the host; its own if none are listed, as the C library does.
pub(super) async fn servers(file: &Path) -> Vec<SocketAddr> {
    let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == "nameserver").then_some(())?;
        let address = words.next()?.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address, 53))
    };
    let listed: Vec<_> = text.lines().filter_map(server).take(3).collect();
    if listed.is_empty() {
        return vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 53))];
    }
    listed
}
