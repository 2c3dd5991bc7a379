//! A donor among others, without sockets and clocks: what comes in, what goes out, and when something is due.
//!
//! `detector` says how donors find out that one is gone.
//!
//! A datagram that somebody sends again while it is believed ([`crate::seal::AGE_MAX`]) moves nobody. The donor that it was for takes it, and no other, except that
//! any answers a question who is there. A life that is gone stays so, a suspicion ends by a higher incarnation alone, and an answer is for the ask of its number, of
//! which there are 256. What an offer says has a number, too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aquifer_remote::control::{MEMBERS_MAX, Offer};
use foca::{Foca, Header, Member, Message as Kind, Notification, Runtime, Timer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::book::{Book, Offers, Shelf, lock};
use crate::detector::config;
use crate::drops::Dropped;
use crate::gossip::Peer;
use crate::id::{About, Id, plain};
use crate::message::{self, Message, VERSION};
use crate::seal::Refused;
use crate::wire::{Entry, Told, Wire, offer_bytes};

/// Offers that go around in one interval, of all donors together.
const OFFERS_PER_INTERVAL: u32 = 10;
/// Intervals after which an offer goes around again though it is the same.
const SAME_AFTER: u32 = 10;
/// One donor in this many is asked without news before asking ends: an answer names some 36 at random, and so all of them have named each donor that is missing with a probability of 1 - e^-6.
const ASKS_PER_DONOR: usize = 6;
/// Most timers that are handled before datagrams are looked at again.
const TIMERS_MAX: usize = 256;

/// What a node is.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where others reach it, by UDP.
    pub at: SocketAddr,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// What it tells of itself.
    pub about: About,
    /// What it has now.
    pub offer: Offer,
    /// Pause between two rounds.
    pub interval: Duration,
    /// How long a donor that is gone is listed.
    pub gone_for: Duration,
    /// For what it does at random.
    pub random: u64,
}

/// A donor among others.
pub struct Node {
    foca: Foca<Id, Wire, SmallRng, Offers>,
    out: Out,
    random: SmallRng,
    interval: Duration,
    gone_for: Duration,
    /// Donors that the failure detector's values are made for.
    sized_for: usize,
    told: Told,
    /// When the offer went around last.
    told_at: Option<Duration>,
    /// Whether it has changed since, or others have come who do not know it.
    is_to_tell: bool,
    is_asking: bool,
    /// Donors that are still asked, unless one of them has news.
    asks: usize,
    arrivals: u64,
}

/// What the failure detector leaves behind.
struct Out {
    now: Duration,
    own: SocketAddr,
    book: Shelf,
    sends: Vec<(SocketAddr, Vec<u8>)>,
    timers: BinaryHeap<Reverse<Due>>,
    /// Timers so far: of two that are due together the older one comes first.
    submitted: u64,
}

/// What is due when.
struct Due {
    at: Duration,
    number: u64,
    what: What,
}

enum What {
    Foca(Timer<Id>),
    /// Once in each interval.
    Round,
    /// Somebody is asked for donors.
    Ask,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Out {
    fn after(&mut self, what: What, after: Duration) {
        let due = Due { at: self.now + after, number: self.submitted, what };
        self.submitted += 1;
        self.timers.push(Reverse(due));
    }
}

impl Runtime<Id> for Out {
    fn notify(&mut self, notification: Notification<'_, Id>) {
        lock(&self.book).notify(&notification, self.now);
    }

    fn send_to(&mut self, to: Id, data: &[u8]) {
        // An earlier life of this donor is not asked.
        if to.at != self.own {
            self.sends.push((to.at, [&[VERSION], data].concat()));
        }
    }

    fn submit_after(&mut self, event: Timer<Id>, after: Duration) {
        self.after(What::Foca(event), after);
    }
}

impl Node {
    /// A node that knows nobody yet. `now` is any clock that only goes forward, the same in all calls.
    #[must_use]
    pub fn new(options: NodeOptions, now: Duration) -> Node {
        let at = plain(options.at);
        let id = Id { at, began: options.began, about: Some(Arc::new(options.about)) };
        let told = Told { number: 1, offer: options.offer };
        let book = Arc::new(Mutex::new(Book::new(id.clone(), told)));
        let config = config(options.interval, options.gone_for, 1);
        let mut random = SmallRng::seed_from_u64(options.random);
        let own_random = SmallRng::seed_from_u64(random.random());
        let wire = Wire::new(at, Arc::clone(&book));
        let foca = Foca::with_custom_broadcast(id, config, random, wire, Offers(Arc::clone(&book)));
        let timers = BinaryHeap::new();
        let mut out = Out { now, own: at, book, sends: Vec::new(), timers, submitted: 0 };
        out.after(What::Round, options.interval);
        Node {
            foca,
            out,
            random: own_random,
            interval: options.interval,
            gone_for: options.gone_for,
            sized_for: 1,
            told,
            told_at: None,
            is_to_tell: true,
            is_asking: false,
            asks: 0,
            arrivals: 0,
        }
    }

    /// Which life of the donor this is: a later one if others took it for gone.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.foca.identity().began
    }

    /// Asks whatever donor gossips at `at` to take this one in and to tell whom it knows.
    pub fn announce(&mut self, now: Duration, at: SocketAddr) {
        self.out.now = now;
        let asked = self.foca.announce(Id::any(at), &mut self.out);
        debug_assert!(asked.is_ok(), "{asked:?}");
    }

    /// Says what the donor has now.
    pub fn set_offer(&mut self, offer: Offer) {
        if offer != self.told.offer {
            self.told = Told { number: self.told.number + 1, offer };
            self.is_to_tell = true;
            self.note_own();
        }
    }

    /// Takes a message from another donor.
    ///
    /// # Errors
    /// Why it is dropped. Nothing has changed, or it named more donors than are kept and the others are known.
    pub fn receive(&mut self, now: Duration, bytes: &[u8]) -> Result<(), Dropped> {
        self.out.now = now;
        let mut message = message::parse(bytes).ok_or(Dropped::Refused(Refused::Malformed))?;
        if message.header.src.at == self.out.own {
            return Err(Dropped::Own);
        }
        let is_crowded = self.foca.iter_membership_state().len() + message.members.len() >= MEMBERS_MAX
            && self.leave_out_strangers(&mut message)?;
        self.handle(message, bytes, is_crowded)?;
        if is_crowded { Err(Dropped::Crowded) } else { Ok(()) }
    }

    fn handle(&mut self, mut message: Message, bytes: &[u8], is_changed: bool) -> Result<(), Dropped> {
        let malformed = Dropped::Refused(Refused::Malformed);
        let others = message.members.iter().map(|entry| (entry.member.id().clone(), entry.told));
        lock(&self.out.book).begin(others.chain([(message.header.src.clone(), message.told)]));
        // What an answer says of others is known to its sender's neighbours: it is not told on, as news are.
        let is_feed = message.header.message == Kind::Feed;
        let fed = if is_feed { std::mem::take(&mut message.members) } else { Vec::new() };
        let rebuilt =
            if is_feed || is_changed { Some(message.bytes().map_err(|_| malformed)?) } else { None };
        let packet = &rebuilt.as_deref().unwrap_or(bytes)[1..];
        let mut handled = self.foca.handle_data(packet, &mut self.out);
        let header = &message.header;
        if handled.is_ok() && header.dst == *self.foca.identity() && self.is_alive(header.src.at) {
            let news = self.news_of(fed);
            handled = self.foca.apply_many(news.into_iter(), false, &mut self.out);
        }
        lock(&self.out.book).end();
        self.after_foca();
        handled.map_err(|_| malformed)?;
        if self.is_for_another_life(header) {
            self.announce(self.out.now, header.src.at);
        }
        let has_arrivals =
            std::mem::replace(&mut self.arrivals, lock(&self.out.book).arrivals()) != self.arrivals;
        self.is_to_tell |= has_arrivals;
        if has_arrivals && is_feed {
            self.asks = self.alive().div_ceil(ASKS_PER_DONOR);
        }
        if self.asks > 0 || lock(&self.out.book).has_stranger() {
            self.ask_soon();
        }
        Ok(())
    }

    /// Leaves out what is known, which most of an answer is: the failure detector looks at all members for each.
    fn news_of(&self, fed: Vec<Entry>) -> Vec<Member<Id>> {
        let book = lock(&self.out.book);
        let is_news = |member: &Member<Id>| member.incarnation() > 0 || !book.has(member.id());
        fed.into_iter().map(|entry| entry.member).filter(is_news).collect()
    }

    /// Whether a datagram is for a donor that was here before, so that the sender does not know of this one.
    fn is_for_another_life(&self, header: &Header<Id>) -> bool {
        let own = self.foca.identity();
        header.dst.at == own.at && header.dst != *own && header.message != Kind::Announce
    }

    /// Leaves out donors that are not known, where as many are as are kept. Whether some were.
    fn leave_out_strangers(&self, message: &mut Message) -> Result<bool, Dropped> {
        let known: std::collections::HashSet<_> =
            self.foca.iter_membership_state().map(|member| member.id().at).collect();
        let free = MEMBERS_MAX.saturating_sub(known.len());
        let is_new = |at: SocketAddr| at != self.out.own && !known.contains(&at);
        let mut new = usize::from(is_new(message.header.src.at));
        if new > free {
            return Err(Dropped::Crowded);
        }
        let before = message.members.len();
        message.members.retain(|entry| {
            let is_new = is_new(entry.member.id().at);
            new += usize::from(is_new);
            !is_new || new <= free
        });
        Ok(message.members.len() < before)
    }

    /// Does what is due. Some of it may be left for the next call, which is due at once then.
    pub fn advance(&mut self, now: Duration) {
        self.out.now = now;
        for _ in 0..TIMERS_MAX {
            if self.due().is_none_or(|due| due > now) {
                return;
            }
            let Some(Reverse(due)) = self.out.timers.pop() else { return };
            match due.what {
                What::Foca(timer) if self.is_refuted(&timer) => {}
                What::Foca(timer) => {
                    // A round that a late timer has cut short is not complete, and the next one is.
                    let _ = self.foca.handle_timer(timer, &mut self.out);
                    self.after_foca();
                }
                What::Round => self.round(),
                What::Ask => self.ask(),
            }
        }
    }

    /// Whether it would end a suspicion that the donor has objected to. `foca` 2.0.0 keeps that donor, and tells it all the same that it is gone.
    fn is_refuted(&self, timer: &Timer<Id>) -> bool {
        let Timer::ChangeSuspectToDown { member_id, incarnation, .. } = timer else { return false };
        let mut members = self.foca.iter_membership_state();
        members.any(|member| member.id() == member_id && member.incarnation() > *incarnation)
    }

    /// When `advance` has something to do.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.out.timers.peek().map(|Reverse(due)| due.at)
    }

    /// Messages to be sent, and where.
    pub fn take_sends(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut self.out.sends)
    }

    /// All donors that are known, this one too.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        lock(&self.out.book).peers()
    }

    /// Whether `peers` is another list than at the last call.
    pub fn take_changed(&mut self) -> bool {
        lock(&self.out.book).take_changed()
    }

    /// Whether the donor that gossips at `at` is alive.
    #[must_use]
    pub fn is_alive(&self, at: SocketAddr) -> bool {
        lock(&self.out.book).is_alive(plain(at))
    }

    /// Donors that are alive, this one too.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.foca.num_members() + 1
    }

    /// Tells some others that this donor goes.
    pub fn leave(&mut self, now: Duration) {
        self.out.now = now;
        let left = self.foca.leave_cluster(&mut self.out);
        debug_assert!(left.is_ok(), "{left:?}");
    }

    /// Notes that this donor began anew, if others took it for gone.
    fn after_foca(&mut self) {
        if lock(&self.out.book).own_began() != self.began() {
            self.is_to_tell = true;
            self.note_own();
        }
    }

    fn note_own(&self) {
        lock(&self.out.book).set_own(self.foca.identity().clone(), self.told);
    }

    fn round(&mut self) {
        let donors = self.alive();
        if donors.ilog2() != self.sized_for.ilog2() {
            self.sized_for = donors;
            let set = self.foca.set_config(config(self.interval, self.gone_for, donors));
            debug_assert!(set.is_ok(), "{set:?}");
        }
        lock(&self.out.book).forget(self.out.now, self.gone_for);
        self.tell(donors);
        self.out.after(What::Round, self.interval);
    }

    /// Lets the offer go around, unless it did of late.
    fn tell(&mut self, donors: usize) {
        let pause = self.interval * (donors as u32).div_ceil(OFFERS_PER_INTERVAL);
        let pause = if self.is_to_tell { pause } else { SAME_AFTER * pause };
        if donors == 1 || self.told_at.is_some_and(|at| self.out.now < at + pause) {
            return;
        }
        self.told_at = Some(self.out.now);
        self.is_to_tell = false;
        // As news even where it is the same, for donors that missed it or do not know this one.
        self.told.number += 1;
        self.note_own();
        let added = self.foca.add_broadcast(&offer_bytes(self.foca.identity(), self.told));
        debug_assert!(added.is_ok(), "{added:?}");
    }

    fn ask_soon(&mut self) {
        if !self.is_asking {
            self.is_asking = true;
            self.out.after(What::Ask, self.interval / 20);
        }
    }

    /// Asks a donor that others speak of, or else any, for the donors that it knows.
    fn ask(&mut self) {
        self.is_asking = false;
        self.asks = self.asks.saturating_sub(1);
        let stranger = lock(&self.out.book).take_stranger();
        let nth = self.random.random_range(0..self.foca.num_members().max(1));
        let asked = stranger.or_else(|| self.foca.iter_members().nth(nth).map(|member| member.id().at));
        if let Some(at) = asked {
            self.announce(self.out.now, at);
        }
        if self.asks > 0 {
            self.ask_soon();
        }
    }
}
