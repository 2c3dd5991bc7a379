//! The thread of gossip.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aquifer_remote::control::Offer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::gossip::Shared;
use crate::node::Node;
use crate::options::GossipOptions;
use crate::seeds::Seeds;
use crate::socket::SealedSocket;

/// Most datagrams that are taken before timers are looked at again: a flood of them does not hold those up.
const DATAGRAMS_MAX: usize = 64;
/// Rounds after which it is said that nobody answers.
const LONELY_ROUNDS: u32 = 10;

/// What the thread has.
pub(crate) struct Talk {
    pub node: Node,
    pub socket: SealedSocket,
    pub seeds: Seeds,
    pub options: GossipOptions,
    pub offer: Box<dyn Fn() -> Offer + Send>,
    pub shared: Arc<Shared>,
    /// Closed at the other end when gossip is to end.
    pub end: UnixStream,
    pub began: Instant,
    /// When seeds are asked next.
    pub next_round: Duration,
    /// When the list is looked at next.
    pub next_look: Duration,
    pub rounds: u32,
}

impl Talk {
    /// Gossips until the other end of `end` is closed, and takes leave.
    pub fn run(mut self) {
        let mut is_more = false;
        loop {
            let wait = if is_more { Duration::ZERO } else { self.wait() };
            // Without an answer of the system it looks anyhow.
            if self.poll(wait).unwrap_or(false) {
                break;
            }
            is_more = self.receive();
            self.node.advance(self.now());
            self.look();
            self.round();
            self.send();
        }
        self.node.leave(self.now());
        self.send();
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Until something is due.
    fn wait(&self) -> Duration {
        let due = self.next_look.min(self.next_round);
        self.node.due().map_or(due, |of_node| of_node.min(due)).saturating_sub(self.now())
    }

    /// Waits for datagrams. Whether gossip is to end.
    fn poll(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let mut fds = [
            PollFd::new(self.socket.socket(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.end.as_fd(), PollFlags::IN),
        ];
        poll(&mut fds, Some(&wait))?;
        Ok(!fds[1].revents().is_empty())
    }

    /// Takes datagrams that have come. Whether there may be more.
    fn receive(&mut self) -> bool {
        for _ in 0..DATAGRAMS_MAX {
            let now = self.now();
            let (from, taken) = match self.socket.receive() {
                Err(ErrorKind::WouldBlock) => return false,
                Err(_) => continue,
                Ok(incoming) => {
                    (incoming.from, incoming.message.and_then(|message| self.node.receive(now, message)))
                }
            };
            match taken {
                Ok(()) => self.shared.drops.note_received(),
                Err(why) => self.shared.drops.note(from, why),
            }
            self.send();
        }
        true
    }

    /// Asks seeds at which nobody is alive, once in each interval.
    fn round(&mut self) {
        let now = self.now();
        if now < self.next_round {
            return;
        }
        self.next_round = now + self.options.interval;
        for seed in self.seeds.round(|address| self.node.is_alive(address) || address == self.shared.address)
        {
            self.node.announce(now, seed);
        }
        self.complain_if_lonely();
    }

    /// Tells what the donor has, and leaves the list for others.
    fn look(&mut self) {
        let now = self.now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + self.options.interval / 4;
        self.node.set_offer((self.offer)());
        if self.node.take_changed() {
            *self.shared.peers() = self.node.peers();
        }
    }

    fn send(&mut self) {
        for (to, message) in self.node.take_sends() {
            if self.socket.send(to, &message) {
                self.shared.drops.note_sent();
            }
        }
    }

    /// Says so once if no seed answers.
    fn complain_if_lonely(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        let own = self.shared.address.to_string();
        let seeds: Vec<_> = self.options.seeds.iter().filter(|seed| **seed != own).cloned().collect();
        if self.rounds == LONELY_ROUNDS && !seeds.is_empty() && self.shared.drops.seen().received == 0 {
            let seeds = seeds.join(" or ");
            self.shared.drops.tell(format!("gossip: nobody answers at {seeds} so far: does a donor gossip there, and is the port open for UDP?"));
        }
    }
}
