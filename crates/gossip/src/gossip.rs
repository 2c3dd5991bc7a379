//! A donor that gossips.

use std::collections::{BTreeMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aquifer_remote::control::{Member, Offer, VERSION};
use aquifer_remote::donor::Membership;
use chitchat::{Chitchat, ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, spawn_chitchat};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::drops::{Drops, DropsSeen};
use crate::options::{GossipError, GossipOptions};
use crate::seal::now;
use crate::socket::SealedTransport;
use crate::told;

/// Which gossip this is. What it carries is another matter: each donor tells its version.
const CLUSTER: &str = "aquifer gossip 1";
/// A donor is gone after a silence of this many times the mean pause between its heartbeats.
const PHI_MAX: f64 = 8.0;
/// Heartbeats that the mean is taken of.
const HEARTBEATS: usize = 100;
/// How long words that were taken back would be kept. None are.
const TAKEN_BACK_FOR: Duration = Duration::from_secs(600);
/// Rounds after which it is said that nobody answers.
const LONELY_ROUNDS: u32 = 10;
/// Pause before gossip that has ended by itself begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// A donor that is there, or was of late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it told, and whether it is heard of.
    pub member: Member,
    /// When it began, in milliseconds since 1970 by its clock: one that was started again has a larger one.
    pub incarnation: u64,
}

/// Gossip, until it is dropped.
pub struct Gossip {
    shared: Arc<Shared>,
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread leaves for others.
#[derive(Default)]
struct Shared {
    peers: Mutex<Vec<Peer>>,
    drops: Arc<Drops>,
}

impl Membership for Shared {
    fn members(&self) -> Vec<Member> {
        self.peers().iter().map(|peer| peer.member.clone()).collect()
    }
}

impl Shared {
    fn peers(&self) -> MutexGuard<'_, Vec<Peer>> {
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
        socket.set_nonblocking(true).map_err(of_listening)?;
        let address = socket.local_addr().map_err(of_listening)?;
        let own = Member {
            address: options.address,
            domain: options.domain.clone(),
            offer: offer(),
            is_alive: true,
            version: VERSION,
        };
        let shared = Arc::new(Shared::default());
        let peer = Peer { member: own.clone(), incarnation: now().as_millis() as u64 };
        shared.peers().push(peer);
        let transport = SealedTransport { socket, key: options.key, drops: Arc::clone(&shared.drops) };
        // Names of seeds are looked up in a second thread, and only then.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("aq-gossip-names")
            .max_blocking_threads(1)
            .build()
            .map_err(GossipError::System)?;
        let (end, ended) = oneshot::channel();
        let talk = Talk {
            options,
            address,
            transport,
            offer: Box::new(offer),
            own,
            shared: Arc::clone(&shared),
            heard: HashSet::new(),
            rounds: 0,
        };
        let thread = thread::Builder::new().name("aq-gossip".into()).spawn(move || talk.run(runtime, ended));
        Ok(Gossip { shared, address, end: Some(end), thread: Some(thread.map_err(GossipError::System)?) })
    }

    /// Where others reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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

/// What the thread has.
struct Talk {
    options: GossipOptions,
    address: SocketAddr,
    transport: SealedTransport,
    offer: Box<dyn Fn() -> Offer + Send>,
    own: Member,
    shared: Arc<Shared>,
    /// Donors that this process has seen alive. Others do not hear of the end of a donor that was only new.
    heard: HashSet<ChitchatId>,
    /// Rounds so far.
    rounds: u32,
}

impl Talk {
    fn run(mut self, runtime: Runtime, ended: oneshot::Receiver<()>) {
        runtime.block_on(async {
            tokio::select! {
                () = self.talk() => {}
                _ = ended => {}
            }
        });
        // Names that are being looked up would be waited for.
        runtime.shutdown_background();
    }

    /// Gossips, and begins again whenever that ends by itself.
    async fn talk(&mut self) {
        let mut incarnation = 0;
        loop {
            incarnation = (now().as_millis() as u64).max(incarnation + 1);
            let words = told::words(&self.own);
            let reason = match spawn_chitchat(self.config(incarnation), words, &self.transport).await {
                Ok(handle) => self.keep(&handle).await,
                Err(error) => error.to_string(),
            };
            self.shared.drops.tell(format!("gossip ended by itself ({reason}) and begins again"));
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn config(&self, incarnation: u64) -> ChitchatConfig {
        let interval = self.options.interval;
        ChitchatConfig {
            // An address and a beginning tell donors apart, and every byte here goes into every message once for each donor.
            chitchat_id: ChitchatId::new("", incarnation, self.address),
            cluster_id: CLUSTER.into(),
            gossip_interval: interval,
            listen_addr: self.address,
            seed_nodes: self.options.seeds.clone(),
            failure_detector_config: FailureDetectorConfig {
                phi_threshold: PHI_MAX,
                sampling_window_size: HEARTBEATS,
                max_interval: 10 * interval,
                initial_interval: 2 * interval,
                dead_node_grace_period: self.options.gone_for,
            },
            marked_for_deletion_grace_period: TAKEN_BACK_FOR,
            catchup_callback: None,
            extra_liveness_predicate: None,
        }
    }

    /// Tells what this donor has and notes what others told, until gossip ends by itself. Returns why it did.
    async fn keep(&mut self, handle: &ChitchatHandle) -> String {
        let mut interval = tokio::time::interval(self.options.interval);
        loop {
            tokio::select! {
                ended = handle.termination_watcher() => {
                    return ended.err().map_or("nobody knows why".into(), |error| error.to_string());
                }
                _ = interval.tick() => {
                    let (name, word) = told::offer_words(&(self.offer)());
                    let chitchat = handle.chitchat();
                    let mut chitchat = chitchat.lock().await;
                    chitchat.self_node_state().set(name, word);
                    let peers = self.peers(&chitchat);
                    *self.shared.peers() = peers;
                    self.complain_if_lonely();
                }
            }
        }
    }

    /// Says so once if no seed answers.
    fn complain_if_lonely(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        let own = self.address.to_string();
        let seeds: Vec<_> = self.options.seeds.iter().filter(|seed| **seed != own).cloned().collect();
        if self.rounds == LONELY_ROUNDS && !seeds.is_empty() && self.shared.drops.seen().received == 0 {
            let seeds = seeds.join(" or ");
            self.shared.drops.tell(format!("gossip: nobody answers at {seeds} so far: does a donor gossip there, and is the port open for UDP?"));
        }
    }

    /// All donors that told where they are. Of one that was started again the later beginning counts, unless only the earlier one is heard of.
    fn peers(&mut self, chitchat: &Chitchat) -> Vec<Peer> {
        let live: HashSet<_> = chitchat.live_nodes().collect();
        let states = chitchat.node_states();
        self.heard.retain(|id| states.contains_key(id));
        self.heard.extend(live.iter().map(|id| (*id).clone()));
        let mut peers = BTreeMap::<SocketAddr, Peer>::new();
        for (id, state) in states.iter().filter(|(id, _)| self.heard.contains(*id)) {
            let Some(mut member) = told::member(|name| state.get(name)) else { continue };
            member.is_alive = live.contains(id);
            let peer = Peer { member, incarnation: id.generation_id };
            let rank = |peer: &Peer| (peer.member.is_alive, peer.incarnation);
            let known = peers.entry(peer.member.address).or_insert_with(|| peer.clone());
            if rank(&peer) > rank(known) {
                *known = peer;
            }
        }
        peers.into_values().collect()
    }
}
