//! Members, and how to wait for what they learn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aquifer_gossip::{Gossip, GossipOptions, Peer};
use aquifer_remote::control::Offer;

/// Of the cluster.
pub const KEY: [u8; 32] = [7; 32];
const SLABS: u64 = 16;

/// A member, and what it says is free.
pub struct Member {
    pub gossip: Gossip,
    pub free: Arc<AtomicU64>,
    pub address: SocketAddr,
}

/// Options of the member whose borrowers come to this port. Nobody listens there: gossip does not care.
pub fn options(port: u16, key: Option<[u8; 32]>, seeds: &[&Member]) -> GossipOptions {
    GossipOptions {
        key,
        seeds: seeds.iter().map(|seed| seed.gossip.address().to_string()).collect(),
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        domain: format!("rack {port}"),
        interval: Duration::from_millis(200),
        ..GossipOptions::default()
    }
}

pub fn start(options: GossipOptions) -> Member {
    let free = Arc::new(AtomicU64::new(SLABS));
    let address = options.address;
    let offer = {
        let free = Arc::clone(&free);
        move || Offer { free_slabs: free.load(Ordering::Relaxed), slabs: SLABS }
    };
    Member { gossip: Gossip::start(options, offer).expect("it begins"), free, address }
}

/// Three members that know the first; the first knows nobody.
pub fn three(key: Option<[u8; 32]>) -> [Member; 3] {
    let first = start(options(1, key, &[]));
    let second = start(options(2, key, &[&first]));
    let third = start(options(3, key, &[&first]));
    [first, second, third]
}

impl Member {
    /// What it knows of another.
    pub fn knows(&self, address: SocketAddr) -> Option<Peer> {
        self.gossip.peers().into_iter().find(|peer| peer.member.address == address)
    }

    pub fn is_alive(&self, address: SocketAddr) -> bool {
        self.knows(address).is_some_and(|peer| peer.member.is_alive)
    }
}

/// Until every member hears of every other.
pub fn wait_for_all(members: &[Member]) {
    wait_until("all hear of all", || {
        members.iter().all(|member| members.iter().all(|other| member.is_alive(other.address)))
    });
}

pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
