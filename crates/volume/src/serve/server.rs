//! The process that owns a volume, for others.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::channel::Channel;
use super::connection::Connection;
use super::quota::Quotas;
use super::refusal::refusal;
use crate::error::{Result, VolumeError};
use crate::volume::Volume;

/// Most clients at a time.
const CLIENTS_MAX: usize = 256;
/// Most clients of one user but root: others find a place.
const CLIENTS_OF_USER_MAX: usize = 64;

/// Serves a volume to clients until [`super::stop_listening`].
///
/// # Errors
/// The system's, of the listening socket. What goes wrong with one client ends that client's connection.
///
/// # Context
/// Blocks. Returns once all clients are gone or were sent away, and no thread has the volume. A thread may still close a descriptor that a client has sent and
/// nobody asked for.
pub fn serve(volume: &Arc<Volume>, listening: &OwnedFd) -> Result<()> {
    let clients = Arc::new(Clients::default());
    let quotas = Arc::new(Quotas::default());
    let outcome = loop {
        let channel = match Channel::accept(listening) {
            Ok(Some(channel)) => Arc::new(channel),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let Ok(user) = channel.peer().map(|peer| peer.uid.as_raw()) else { continue };
        let Some(place) = clients.enter(&channel, user) else {
            let step = "serving one more program of this user";
            let full = VolumeError::System { step, errno: libc::EUSERS };
            // The socket of a new connection has room for it.
            let _ = channel.send(&refusal(&full).encode(), None);
            continue;
        };
        let (volume, quota) = (Arc::clone(volume), quotas.of(user));
        // Without a thread, the closure and with it the place is dropped.
        let _ = std::thread::Builder::new().name("aq-volume-client".into()).spawn(move || {
            let mut place = place;
            // A client whose connection fails is gone; nobody is left to tell.
            let strange = Connection::new(volume, channel, quota).map(|mut client| {
                let _ = client.run();
                client.into_strange()
            });
            place.end();
            drop(strange);
        });
    };
    clients.send_away();
    outcome
}

/// All connected clients.
#[derive(Default)]
struct Clients {
    connected: Mutex<HashMap<usize, Client>>,
    changed: Condvar,
}

/// A connected client.
struct Client {
    channel: Arc<Channel>,
    user: u32,
    /// Whether its thread has nothing of the volume any more, and only closes what the client has sent.
    is_ended: bool,
}

/// A client's place, until it is dropped.
struct Place {
    clients: Arc<Clients>,
    number: usize,
}

impl Clients {
    fn enter(self: &Arc<Self>, channel: &Arc<Channel>, user: u32) -> Option<Place> {
        let mut connected = lock(&self.connected);
        let of_user = connected.values().filter(|client| client.user == user).count();
        if connected.len() >= CLIENTS_MAX || (user != 0 && of_user >= CLIENTS_OF_USER_MAX) {
            return None;
        }
        let number = Arc::as_ptr(channel).addr();
        connected.insert(number, Client { channel: Arc::clone(channel), user, is_ended: false });
        Some(Place { clients: Arc::clone(self), number })
    }

    /// Ends all connections, and waits until no thread has the volume.
    fn send_away(&self) {
        let mut connected = lock(&self.connected);
        connected.values().for_each(|client| client.channel.end());
        while connected.values().any(|client| !client.is_ended) {
            connected = self.changed.wait(connected).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Place {
    /// Says that the thread has nothing of the volume any more.
    fn end(&mut self) {
        if let Some(client) = lock(&self.clients.connected).get_mut(&self.number) {
            client.is_ended = true;
        }
        self.clients.changed.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.clients.connected).remove(&self.number);
        self.clients.changed.notify_all();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
