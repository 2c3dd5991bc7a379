//! The process that owns a volume, for others.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::channel::Channel;
use super::connection::Connection;
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
/// Blocks. Returns once all clients are gone or were sent away.
pub fn serve(volume: &Arc<Volume>, listening: &OwnedFd) -> Result<()> {
    let connected: Mutex<HashMap<usize, Client>> = Mutex::default();
    std::thread::scope(|scope| {
        let outcome = loop {
            let channel = match Channel::accept(listening) {
                Ok(Some(channel)) => Arc::new(channel),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Ok(user) = channel.peer().map(|peer| peer.uid.as_raw()) else { continue };
            if !has_place(&lock(&connected), user) {
                let step = "serving one more program of this user";
                let full = VolumeError::System { step, errno: libc::EUSERS };
                let _ = channel.send(&refusal(&full).encode(), None);
                continue;
            }
            let number = Arc::as_ptr(&channel).addr();
            lock(&connected).insert(number, Client { channel: Arc::clone(&channel), user });
            let connected = &connected;
            let started =
                std::thread::Builder::new().name("aq-volume-client".into()).spawn_scoped(scope, move || {
                    // A client whose connection fails is gone; nobody is left to tell.
                    let _ = Connection::new(volume, Arc::clone(&channel)).and_then(|mut client| client.run());
                    lock(connected).remove(&number);
                });
            if started.is_err() {
                lock(connected).remove(&number);
            }
        };
        lock(&connected).values().for_each(|client| client.channel.end());
        outcome
    })
}

/// A connected client.
struct Client {
    channel: Arc<Channel>,
    user: u32,
}

fn has_place(connected: &HashMap<usize, Client>, user: u32) -> bool {
    let of_user = connected.values().filter(|client| client.user == user).count();
    connected.len() < CLIENTS_MAX && (user == 0 || of_user < CLIENTS_OF_USER_MAX)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
