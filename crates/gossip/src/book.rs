//! What is known of each donor beside the failure detector.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aquifer_remote::control::Member;
use foca::{BroadcastHandler, Invalidates, Notification};

use crate::gossip::Peer;
use crate::id::Id;
use crate::wire::{self, Told};

/// The book, for the failure detector's parts that read and write it. One thread has them all.
pub(crate) type Shelf = Arc<Mutex<Book>>;

pub(crate) fn lock(book: &Shelf) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A donor that was alive for this process at some time.
struct Known {
    id: Id,
    told: Told,
    /// Since when it is gone.
    gone: Option<Duration>,
}

/// All donors, this one too.
pub(crate) struct Book {
    own: Id,
    own_told: Told,
    known: HashMap<SocketAddr, Known>,
    /// What members of the message that is being read told, until the failure detector says which are new.
    heard: HashMap<SocketAddr, (Id, Told)>,
    /// A donor whose offer went around and that is not known.
    stranger: Option<SocketAddr>,
    /// Donors that have come or have begun anew.
    arrivals: u64,
    is_changed: bool,
}

impl Book {
    pub fn new(own: Id, told: Told) -> Book {
        Book {
            own,
            own_told: told,
            known: HashMap::new(),
            heard: HashMap::new(),
            stranger: None,
            arrivals: 0,
            is_changed: true,
        }
    }

    /// What a donor told last: this one, one that is known, or one that the message at hand tells of.
    pub fn told(&self, id: &Id) -> Option<Told> {
        if id.at == self.own.at {
            return Some(self.own_told);
        }
        let known = self.known.get(&id.at).map(|known| known.told);
        known.or_else(|| self.heard.get(&id.at).map(|(_, told)| *told))
    }

    pub fn own_began(&self) -> u64 {
        self.own.began
    }

    pub fn set_own(&mut self, own: Id, told: Told) {
        self.own = own;
        self.own_told = told;
        self.is_changed = true;
    }

    /// Begins a message that tells this of donors.
    pub fn begin(&mut self, told: impl Iterator<Item = (Id, Told)>) {
        self.heard.extend(told.map(|(id, told)| (id.at, (id, told))));
    }

    /// Ends it: what is newer is kept.
    pub fn end(&mut self) {
        for (_, (id, told)) in std::mem::take(&mut self.heard) {
            self.hear(&id, told);
        }
    }

    /// Keeps what a donor told, if it is news of the life that is known. Whether it is.
    fn hear(&mut self, id: &Id, told: Told) -> bool {
        let Some(known) = self.known.get_mut(&id.at) else { return false };
        let is_news = known.id == *id && told.number > known.told.number;
        if is_news {
            known.told = told;
            self.is_changed = true;
        }
        is_news
    }

    /// The same of an offer that goes around. One of a donor that is not known is remembered, to ask that donor.
    fn hear_around(&mut self, id: &Id, told: Told) -> bool {
        if id.at != self.own.at && !self.known.contains_key(&id.at) {
            self.stranger = Some(id.at);
        }
        self.hear(id, told)
    }

    /// Notes what the failure detector says.
    pub fn notify(&mut self, notification: &Notification<'_, Id>, now: Duration) {
        match notification {
            Notification::MemberUp(id) => self.arrive(id),
            Notification::Rename(_, id)
                if self.known.get(&id.at).is_some_and(|known| known.gone.is_none()) =>
            {
                self.arrive(id);
            }
            Notification::MemberDown(id) => {
                if let Some(known) = self.known.get_mut(&id.at) {
                    known.gone = Some(now);
                    self.is_changed = true;
                }
            }
            _ => {}
        }
    }

    fn arrive(&mut self, id: &Id) {
        let Some(told) = self.heard.get(&id.at).map(|(_, told)| *told).or_else(|| self.told(id)) else {
            return;
        };
        self.known.insert(id.at, Known { id: id.clone(), told, gone: None });
        self.arrivals += 1;
        self.is_changed = true;
    }

    /// Forgets donors that have been gone for `gone_for`.
    pub fn forget(&mut self, now: Duration, gone_for: Duration) {
        let before = self.known.len();
        self.known.retain(|_, known| known.gone.is_none_or(|since| now.saturating_sub(since) < gone_for));
        self.is_changed |= self.known.len() != before;
    }

    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    pub fn take_stranger(&mut self) -> Option<SocketAddr> {
        self.stranger.take()
    }

    pub fn has_stranger(&self) -> bool {
        self.stranger.is_some()
    }

    /// Whether the list is another one than at the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    pub fn is_alive(&self, at: SocketAddr) -> bool {
        self.known.get(&at).is_some_and(|known| known.gone.is_none())
    }

    /// Whether this life of a donor is known as alive.
    pub fn has(&self, id: &Id) -> bool {
        self.known.get(&id.at).is_some_and(|known| known.gone.is_none() && known.id == *id)
    }

    /// All donors. Of two at one address of borrowers the living one counts, and of two such the later.
    pub fn peers(&self) -> Vec<Peer> {
        let others = self.known.values().map(|known| (&known.id, known.told, known.gone.is_none()));
        let all = others.chain([(&self.own, self.own_told, true)]);
        let mut peers: Vec<_> = all.filter_map(|(id, told, is_alive)| peer(id, told, is_alive)).collect();
        peers.sort_by_key(|peer| {
            (peer.member.address, std::cmp::Reverse((peer.member.is_alive, peer.incarnation)))
        });
        peers.dedup_by_key(|peer| peer.member.address);
        peers
    }
}

fn peer(id: &Id, told: Told, is_alive: bool) -> Option<Peer> {
    let about = id.about.as_ref()?;
    let (address, domain, version) = (about.address, about.domain.clone(), about.version);
    let member = Member { address, domain, offer: told.offer, is_alive, version };
    Some(Peer { member, incarnation: id.began })
}

/// Which offer goes around: a newer one of the same donor takes its place.
pub(crate) struct Key(SocketAddr);

impl Invalidates for Key {
    fn invalidates(&self, other: &Key) -> bool {
        self.0 == other.0
    }
}

/// Keeps offers that go around, and says which are worth sending on.
pub(crate) struct Offers(pub Shelf);

impl BroadcastHandler<Id> for Offers {
    type Key = Key;
    type Error = Infallible;

    fn receive_item(&mut self, data: &[u8], sender: Option<&Id>) -> Result<Option<Key>, Infallible> {
        let Ok((id, told)) = wire::offer(data) else { return Ok(None) };
        // Without a sender it is this donor's own.
        let is_news = sender.is_none() || lock(&self.0).hear_around(&id, told);
        Ok(is_news.then_some(Key(id.at)))
    }
}
