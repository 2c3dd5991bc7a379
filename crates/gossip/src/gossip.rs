//! A donor that gossips.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use aquifer_remote::control::{Member, Offer, VERSION};
use aquifer_remote::donor::Membership;
use ring::rand::{SecureRandom, SystemRandom};

use crate::drops::{Drops, DropsSeen};
use crate::id::{About, plain};
use crate::node::{Node, NodeOptions};
use crate::options::{GossipError, GossipOptions};
use crate::seal::now;
use crate::seeds::Seeds;
use crate::socket::SealedSocket;
use crate::thread::Talk;

/// A donor that is there, or was of late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it told, and whether it is heard of.
    pub member: Member,
    /// When it began, in milliseconds since 1970 by its clock: one that was started again has a larger one.
    pub incarnation: u64,
}

/// Gossip, until it is dropped. Others are told then.
pub struct Gossip {
    shared: Arc<Shared>,
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread leaves for others.
pub(crate) struct Shared {
    /// Where others reach this donor, by UDP.
    pub address: SocketAddr,
    peers: Mutex<Vec<Peer>>,
    pub drops: Drops,
}

impl Membership for Shared {
    fn members(&self) -> Vec<Member> {
        self.peers().iter().map(|peer| peer.member.clone()).collect()
    }
}

impl Shared {
    pub fn peers(&self) -> MutexGuard<'_, Vec<Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gossip {
    /// Begins to gossip; `offer` says what the donor has at the moment.
    ///
    /// # Errors
    /// [`GossipError`].
    pub fn start(
        options: GossipOptions,
        offer: impl Fn() -> Offer + Send + 'static,
    ) -> Result<Gossip, GossipError> {
        options.check()?;
        let listen = options.listen;
        let of_listening = |reason| GossipError::Listen { address: listen, reason };
        let socket = UdpSocket::bind(listen).map_err(of_listening)?;
        let address = plain(socket.local_addr().map_err(of_listening)?);
        let offer: Box<dyn Fn() -> Offer + Send> = Box::new(offer);
        let node = Node::new(node_options(&options, address, offer())?, Duration::ZERO);
        let shared = Arc::new(Shared { address, peers: Mutex::new(node.peers()), drops: Drops::default() });
        let (end, ended) = UnixStream::pair().map_err(GossipError::System)?;
        let talk = Talk {
            node,
            socket: SealedSocket::new(socket, options.key).map_err(GossipError::System)?,
            seeds: Seeds::new(&options.seeds, options.key.is_some()),
            options,
            offer,
            shared: Arc::clone(&shared),
            end: ended,
            began: Instant::now(),
            next_round: Duration::ZERO,
            next_look: Duration::ZERO,
            rounds: 0,
        };
        let thread = Builder::new().name("aq-gossip".into()).spawn(move || talk.run());
        Ok(Gossip { shared, end: Some(end), thread: Some(thread.map_err(GossipError::System)?) })
    }

    /// Where others reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// All donors that are known here, this one too.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.peers().clone()
    }

    /// The same, for the donor to tell its borrowers.
    #[must_use]
    pub fn membership(&self) -> Arc<dyn Membership> {
        Arc::clone(&self.shared) as Arc<dyn Membership>
    }

    /// Datagrams so far.
    #[must_use]
    pub fn drops(&self) -> DropsSeen {
        self.shared.drops.seen()
    }

    /// Sentences for people, since the last time: what is dropped and why.
    #[must_use]
    pub fn take_news(&self) -> Vec<String> {
        self.shared.drops.take_news()
    }
}

impl Drop for Gossip {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn node_options(
    options: &GossipOptions,
    address: SocketAddr,
    offer: Offer,
) -> Result<NodeOptions, GossipError> {
    let mut random = [0; 8];
    let drawn = SystemRandom::new().fill(&mut random);
    drawn.map_err(|_| GossipError::System(std::io::Error::other("the system gives no random bytes")))?;
    let about = About { address: options.address, domain: options.domain.clone(), version: VERSION };
    Ok(NodeOptions {
        at: address,
        began: now().as_millis() as u64,
        about,
        offer,
        interval: options.interval,
        gone_for: options.gone_for,
        random: u64::from_le_bytes(random),
    })
}
