//! All clients, and the end of all.

use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aquifer_device::{Device, DeviceError};
use rustls::ServerConfig;

use super::connection::{STACK_BYTES, Served, serve};
use super::ended::Ended;
use super::export::Export;
use super::listener::Listener;
use super::stream::Stream;
use crate::Report;

/// Requests that have begun may take this long when the server ends; then their clients are cut off.
const FAREWELL: Duration = Duration::from_secs(10);
/// After a failure to accept, such as too many open files.
const RECOVERY: Duration = Duration::from_millis(100);

/// How clients are served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Requests of one connection that are done at once, each with 1 MiB of memory.
    pub threads: usize,
    /// Connections at once. One more takes the place of a client that does not get on, or is turned away.
    pub connections_max: usize,
    /// After this long in the middle of a message a client does not get on: 28 bytes of a request, 1 MiB of a write or of
    /// a reply.
    pub stall_max: Duration,
    /// With it, only clients whose certificates it believes are served.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { threads: 4, connections_max: 16, stall_max: Duration::from_secs(30), tls: None }
    }
}

/// A device, served to every client that connects.
pub struct Server {
    served: Arc<Served>,
    shared: Arc<Shared>,
    connections_max: usize,
    stall_max: Duration,
    report: Report,
}

struct Shared {
    listener: Listener,
    is_ending: AtomicBool,
    connections: Mutex<Vec<Arc<Stream>>>,
    /// Told when a connection is gone.
    left: Condvar,
}

/// Ends a server from another thread, such as that of a signal.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Server {
    /// Serves all of `device` under `name` at `listener`, which takes clients already; they wait until [`Server::serve`] runs. Sentences about clients
    /// go to `report`.
    #[must_use]
    pub fn new(
        device: Arc<dyn Device>,
        name: &str,
        listener: Listener,
        settings: Settings,
        report: Report,
    ) -> Self {
        let export = Export::of(&*device, name);
        let shared = Shared {
            listener,
            is_ending: AtomicBool::new(false),
            connections: Mutex::default(),
            left: Condvar::new(),
        };
        Server {
            served: Arc::new(Served { device, export, threads: settings.threads, tls: settings.tls }),
            shared: Arc::new(shared),
            connections_max: settings.connections_max,
            stall_max: settings.stall_max,
            report,
        }
    }

    /// What can end this server while it serves.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Serves clients until it is [stopped](Stopper::stop): requests that have begun are answered then, and no others.
    ///
    /// # Errors
    /// The device's, when what was acknowledged could not be made durable.
    ///
    /// # Durability
    /// What was acknowledged is durable when this returns without an error.
    pub fn serve(self) -> Result<(), DeviceError> {
        while !self.shared.is_ending.load(SeqCst) {
            match self.shared.listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(_) if self.shared.is_ending.load(SeqCst) => break,
                Err(error) => {
                    (self.report)(&format!("no client can be accepted: {error}"));
                    thread::sleep(RECOVERY);
                }
            }
        }
        // A [`Stopper`] may still hold the listener, so dropping the server does not close it.
        self.shared.listener.remove();
        self.take_leave();
        self.served.device.sync()
    }

    fn welcome(&self, stream: Stream, peer: String) {
        let stream = Arc::new(stream);
        if !self.shared.admit(&stream, self.connections_max, self.stall_max) {
            let most = self.connections_max;
            return (self.report)(&format!("{peer}: turned away, there are {most} connections already"));
        }
        let (served, shared, report) =
            (Arc::clone(&self.served), Arc::clone(&self.shared), Arc::clone(&self.report));
        let own = Arc::clone(&stream);
        let client = move || {
            let on_failure = |error: &DeviceError| report(&format!("{peer}: {error}"));
            let outcome = serve(&served, &own, &on_failure);
            own.shut_down(Shutdown::Both);
            let outcome = if own.pace().is_sent_away() { Err(Ended::SentAway) } else { outcome };
            if let Err(ended) = outcome {
                report(&format!("{peer}: {ended}"));
            }
            // Before the connection counts as gone: the device is free when all are.
            drop((served, on_failure));
            shared.dismiss(&own);
        };
        let builder = thread::Builder::new().name("aq-block-client".into()).stack_size(STACK_BYTES);
        if let Err(error) = builder.spawn(client) {
            self.shared.dismiss(&stream);
            (self.report)(&cannot_serve(&error));
        }
    }

    /// Ends every connection: first it gets no more requests, and after a while no more replies.
    fn take_leave(&self) {
        let deadline = Instant::now() + FAREWELL;
        let mut connections = lock(&self.shared.connections);
        connections.iter().for_each(|stream| stream.shut_down(Shutdown::Read));
        while !connections.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                connections.iter().for_each(|stream| stream.shut_down(Shutdown::Both));
                // What the device does now it does to its end.
                connections = self.shared.left.wait(connections).unwrap_or_else(PoisonError::into_inner);
            } else {
                let waited = self.shared.left.wait_timeout(connections, left);
                connections = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Shared {
    /// Whether there is room for a connection; it counts from now on.
    fn admit(&self, stream: &Arc<Stream>, most: usize, stall_max: Duration) -> bool {
        let mut connections = lock(&self.connections);
        let staying = connections.iter().filter(|other| !other.pace().is_sent_away()).count();
        if staying >= most && !send_one_away(&connections, stall_max) {
            return false;
        }
        connections.push(Arc::clone(stream));
        true
    }

    fn dismiss(&self, stream: &Arc<Stream>) {
        lock(&self.connections).retain(|other| !Arc::ptr_eq(other, stream));
        self.left.notify_all();
    }
}

impl Stopper {
    /// Makes [`Server::serve`] return soon.
    pub fn stop(&self) {
        self.0.is_ending.store(true, SeqCst);
        self.0.listener.close();
    }

    /// Connections that there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.0.connections).len()
    }
}

/// Sends a client away that does not get on; `false` if there is none.
///
/// Negotiations end in milliseconds. The oldest one gives way, so that clients without a certificate cannot keep all places.
fn send_one_away(connections: &[Arc<Stream>], stall_max: Duration) -> bool {
    let staying = || connections.iter().filter(|stream| !stream.pace().is_sent_away());
    let stalled = staying().find(|stream| stream.pace().is_stalled(stall_max));
    let one = stalled.or_else(|| staying().find(|stream| !stream.pace().is_in_transmission()));
    one.inspect(|stream| stream.send_away()).is_some()
}

fn cannot_serve(error: &io::Error) -> String {
    format!("a client was turned away, no thread could be started for it: {error}")
}

/// The list is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
