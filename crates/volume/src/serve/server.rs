//! The process that owns a volume, for others.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::channel::Channel;
use super::connection::Connection;
use super::refusal::refusal;
use crate::error::{Result, VolumeError};
use crate::volume::Volume;

/// Most clients at a time.
const CLIENTS_MAX: usize = 256;

/// Serves a volume to clients until [`super::stop_listening`].
///
/// # Errors
/// The system's, of the listening socket. What goes wrong with one client ends that client's connection.
///
/// # Context
/// Blocks. Returns once all clients are gone or were sent away.
pub fn serve(volume: &Arc<Volume>, listening: &OwnedFd) -> Result<()> {
    let clients = AtomicUsize::new(0);
    let connected: Mutex<HashMap<usize, Arc<Channel>>> = Mutex::default();
    std::thread::scope(|scope| {
        let outcome = loop {
            let channel = match Channel::accept(listening) {
                Ok(Some(channel)) => Arc::new(channel),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if clients.load(Ordering::Acquire) >= CLIENTS_MAX {
                let _ = channel.send(
                    &refusal(&VolumeError::System { step: "serving", errno: libc::EUSERS }).encode(),
                    None,
                );
                continue;
            }
            clients.fetch_add(1, Ordering::AcqRel);
            let number = Arc::as_ptr(&channel).addr();
            lock(&connected).insert(number, Arc::clone(&channel));
            let (clients, connected) = (&clients, &connected);
            let started =
                std::thread::Builder::new().name("aq-volume-client".into()).spawn_scoped(scope, move || {
                    // A client whose connection fails is gone; nobody is left to tell.
                    let _ = Connection::new(volume, Arc::clone(&channel)).and_then(|mut client| client.run());
                    lock(connected).remove(&number);
                    clients.fetch_sub(1, Ordering::AcqRel);
                });
            if started.is_err() {
                lock(connected).remove(&number);
                clients.fetch_sub(1, Ordering::AcqRel);
            }
        };
        lock(&connected).values().for_each(|channel| channel.end());
        outcome
    })
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
