//! Sandboxes on the same private network, for programs that ask a proxy for everything.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bulkhead_egress::{Duplex, GatewayPlan, Neighbours, Reaching};
use bulkhead_spec::{EgressLimits, HostName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    servers,
    stage::{Stage, World, plan},
    ways,
};

/// A network with `db` in it, which is there so often when somebody looks, and then gone.
struct Lan {
    looks: AtomicUsize,
    at: SocketAddr,
}

impl Neighbours for Lan {
    fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let there = |left: usize| left.checked_sub(1);
        let here = name.as_str() == "db.lan"
            && self.looks.fetch_update(Relaxed, Relaxed, there).is_ok();
        here.then_some(Ipv4Addr::new(198, 19, 0, 2))
    }

    fn reach(&self, _: SocketAddrV4) -> Reaching<'_> {
        Box::pin(async {
            let stream = TcpStream::connect(self.at).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

async fn lan(looks: usize) -> Option<Arc<dyn Neighbours>> {
    let at = servers::echo("hello neighbour").await;
    Some(Arc::new(Lan { looks: looks.into(), at }))
}

/// The world may have a host of the same name, and the proxy of the host knows names that we do
/// not: whoever was let in as a neighbour goes to a neighbour or nowhere.
#[tokio::test]
async fn a_neighbour_that_leaves_meanwhile_is_no_way_to_the_world() {
    for looks in 1..5 {
        let world = Arc::new(World::default());
        world.put("db.lan", "203.0.113.5", 9000, servers::echo("hello world").await);
        let stage = Stage::with(&world, GatewayPlan { neighbours: lan(looks).await, ..plan() });
        drop(ways::connect(&stage, "db.lan:9000").await);
        drop(ways::socks_name(&stage, b"db.lan", 9000).await);
        let get = b"GET http://db.lan:9000/ HTTP/1.1\r\nHost: db.lan:9000\r\n\r\n";
        drop(ways::raw_http(&stage, get).await);
        assert_eq!((stage.asked(), stage.dialled()), (Vec::new(), Vec::new()), "{looks}");
    }
}

/// What stays among neighbours does not go out, whichever way it takes to them.
#[tokio::test]
async fn what_is_said_to_a_neighbour_counts_against_no_limit() {
    let limits = EgressLimits {
        up: Some("4".parse().unwrap()),
        down: Some("4".parse().unwrap()),
        ..EgressLimits::default()
    };
    let neighbours = lan(usize::MAX).await;
    let plan = GatewayPlan { neighbours, limits, ..plan() };
    let stage = Stage::with(&Arc::new(World::default()), plan);
    for _ in 0..2 {
        let mut stream = ways::connect(&stage, "db.lan:9000").await.stream();
        stream.write_all(b"more than four bytes").await.unwrap();
        let mut said = [0; 35];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello neighbourmore than four bytes");
    }
    let usage = stage.gateway.usage();
    assert_eq!((usage.up, usage.down, usage.hosts.len()), (0, 0, 0));
}
