//! What the threads of a donor share.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Membership;
use super::deed::{Deed, What};
use super::lending::{BorrowerId, Lending};
use super::options::{DonorError, DonorOptions};
use super::session::Session;
use super::strangers::Strangers;
use crate::control::{Borrowing, Member, Members, SlabId, VERSION};
use crate::events::Events;
use crate::random;
use crate::transport::Staging;
use crate::words::Words;

/// What a donor lends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DonorNow {
    /// Slabs in RAM.
    pub slabs: u64,
    /// Slabs that are lent.
    pub lent: u64,
    /// Slabs whose borrowers were asked to leave.
    pub leaving: u64,
    /// Borrowers.
    pub borrowers: u64,
    /// Slabs that were taken back since it began.
    pub evicted: u64,
    /// Of these, slabs whose borrower did not leave in time.
    pub forced: u64,
    /// Some slab may be swapped out: the process may not lock enough memory.
    pub is_unlocked: bool,
}

/// What the threads of a donor share.
pub struct State {
    pub options: DonorOptions,
    /// Of the channels.
    pub address: SocketAddr,
    /// Of transfers.
    pub port: u16,
    /// As which it is known under all its names.
    pub instance: String,
    pub lending: Mutex<Lending>,
    pub strangers: Arc<Strangers>,
    pub deeds: Events<Deed>,
    /// The source of the list of donors, if one was set.
    membership: OnceLock<Arc<dyn Membership>>,
    /// Memory of every slab.
    memory: Mutex<BTreeMap<SlabId, Arc<Staging>>>,
    sessions: Mutex<BTreeMap<BorrowerId, Arc<Session>>>,
    wanted_back: AtomicUsize,
    pub evicted: AtomicU64,
    pub forced: AtomicU64,
    began: Instant,
    is_ending: AtomicBool,
    /// Some slab may be swapped out.
    is_unlocked: AtomicBool,
}

impl State {
    pub fn new(options: DonorOptions, address: SocketAddr, port: u16) -> Result<State, DonorError> {
        Ok(State {
            address,
            port,
            instance: random::to_hex(&random::bytes::<16>().map_err(DonorError::Kernel)?),
            lending: Mutex::new(Lending::new(options.quota_slabs())),
            strangers: Arc::default(),
            deeds: Events::default(),
            membership: OnceLock::new(),
            memory: Mutex::default(),
            sessions: Mutex::default(),
            wanted_back: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            began: Instant::now(),
            is_ending: AtomicBool::new(false),
            is_unlocked: AtomicBool::new(false),
            options,
        })
    }

    pub fn moment(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn now(&self) -> DonorNow {
        let lending = self.lending();
        DonorNow {
            slabs: lending.len() as u64,
            lent: lending.lent(),
            leaving: lending.leaving(),
            borrowers: lock(&self.sessions).len() as u64,
            evicted: self.evicted.load(Ordering::Relaxed),
            forced: self.forced.load(Ordering::Relaxed),
            is_unlocked: self.is_unlocked.load(Ordering::Relaxed),
        }
    }

    /// Borrowers, those with the most slabs first.
    pub fn borrowers(&self) -> Vec<Borrowing> {
        let lending = self.lending();
        let borrowing = |session: &Arc<Session>| Borrowing {
            host: session.host.clone(),
            name: session.name.clone(),
            slabs: lending.lent_to(session.id),
        };
        let mut all: Vec<_> = lock(&self.sessions).values().map(borrowing).collect();
        all.sort_by_key(|borrowing| std::cmp::Reverse(borrowing.slabs));
        all
    }

    /// Sets the source of the list of donors. The first one stays.
    pub fn set_membership(&self, membership: Arc<dyn Membership>) {
        let _ = self.membership.set(membership);
    }

    /// All donors that are known here: without anybody who knows the others, this one alone.
    pub fn members(&self) -> Members {
        let own = || Member {
            address: self.address,
            domain: self.options.domain.clone(),
            offer: self.lending().offer(),
            is_alive: true,
            version: VERSION,
        };
        let known = self.membership.get().map(|membership| membership.members());
        Members::most_of(known.unwrap_or_else(|| vec![own()]))
    }

    pub fn lending(&self) -> MutexGuard<'_, Lending> {
        lock(&self.lending)
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Ends what is left when no new borrower comes any more.
    pub fn end_sessions(&self) {
        let sessions = std::mem::take(&mut *lock(&self.sessions));
        sessions.values().for_each(|session| session.end());
    }

    pub fn want_back(&self, slabs: usize) {
        self.wanted_back.fetch_add(slabs, Ordering::Relaxed);
    }

    pub fn take_wanted_back(&self) -> usize {
        self.wanted_back.swap(0, Ordering::Relaxed)
    }

    pub fn add_session(&self, session: &Arc<Session>) {
        lock(&self.sessions).insert(session.id, Arc::clone(session));
        self.note(What::Came, session, None);
    }

    /// Notes what was done with a borrower or a slab of it.
    pub fn note(&self, what: What, session: &Session, slab: Option<SlabId>) {
        self.deeds.note(Deed { what, slab, borrower: session.id, name: Words::of(&session.name) });
    }

    pub fn session(&self, borrower: BorrowerId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&borrower).cloned()
    }

    /// The session that gave out this token.
    pub fn session_with(&self, token: &[u8]) -> Option<Arc<Session>> {
        lock(&self.sessions).values().find(|session| session.token == token).cloned()
    }

    /// A borrower is gone: nobody reaches its slabs any more, and others may have them.
    pub fn remove_session(&self, borrower: BorrowerId) {
        let session = lock(&self.sessions).remove(&borrower);
        let had = self.lending().leave(borrower);
        if let Some(session) = session {
            had.iter().for_each(|(slab, _)| self.note(What::TakenBack, &session, Some(*slab)));
            self.note(What::Gone, &session, None);
        }
        had.into_iter().for_each(|(slab, is_wanted)| self.settle_returned(slab, is_wanted));
    }

    /// A slab that nobody can reach: it is freed if its RAM is wanted, or else wiped and lent again. What a borrower has mapped is replaced, if there is memory.
    pub fn settle_returned(&self, slab: SlabId, is_wanted: bool) {
        if is_wanted {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            self.free(slab);
            return;
        }
        let memory = self.memory_of(slab);
        if let Some(memory) = memory.filter(|memory| !memory.is_given_out()) {
            memory.wipe();
            return self.lending().wiped(slab);
        }
        self.free(slab);
        match self.new_memory() {
            Ok(memory) => {
                lock(&self.memory).insert(slab, memory);
                self.lending().wiped(slab);
            }
            Err(_) => self.lending().lost(slab),
        }
    }

    /// One slab more.
    ///
    /// # Errors
    /// No memory.
    pub fn add_slab(&self) -> io::Result<()> {
        let memory = self.new_memory()?;
        let mut lending = self.lending();
        let slab = lending.add();
        lock(&self.memory).insert(slab, memory);
        Ok(())
    }

    fn new_memory(&self) -> io::Result<Arc<Staging>> {
        let len = self.options.slab_bytes as usize;
        let made =
            if self.options.is_for_own_machine_alone() { Staging::shareable(len) } else { Staging::new(len) };
        let memory = made.map_err(|error| io::Error::from_raw_os_error(error.0))?;
        if memory.lock().is_err() {
            self.is_unlocked.store(true, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Gives a slab's RAM back to the machine.
    pub fn free(&self, slab: SlabId) {
        lock(&self.memory).remove(&slab);
    }

    pub fn memory_of(&self, slab: SlabId) -> Option<Arc<Staging>> {
        lock(&self.memory).get(&slab).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
