//! The connection to one donor: what is asked, what it asks, and transfers.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use aquifer_sys::helper;

use super::CallError;
use super::options::BorrowerOptions;
use super::returns::{Lease, Returns};
use crate::control::{
    Answer, Call, Channel, ChannelError, Ender, Greeting, HostRole, MESSAGE_BYTES_MAX, MESSAGE_LIMIT, Notice,
    Offer, Refusal, Reply, Role, SlabId, Stream, VERSION, Welcome, machine_id,
};
use crate::far::{DonorId, Home};
use crate::random;
use crate::transport::{self, Link, Place, TrafficSeen, TransportError};

/// How long a donor may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Time in which an answer that has come already is taken.
const GLANCE: Duration = Duration::from_millis(1);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name means nothing here.
    #[error("{0} is no address that this machine can resolve; write HOST:PORT")]
    Name(String),
    /// Nobody is there.
    #[error("{address} does not answer ({reason}): is `aquifer donate` running there, and is the port open?")]
    Unreachable {
        /// Where.
        address: String,
        /// The system's words.
        reason: std::io::Error,
    },
    /// It is somebody else, or does not know us.
    #[error("{address}: {reason}; do both hosts have certificates of one cluster?")]
    Stranger {
        /// Where.
        address: String,
        /// What went wrong.
        reason: ChannelError,
    },
    /// It does not lend to us.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No transfers.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No thread.
    #[error("the system gives no thread: {0}")]
    Thread(std::io::Error),
    /// Its slabs are of no use beside those of the others.
    #[error("it lends slabs of {theirs} bytes and others of {ours}: start all donors with one --slab")]
    SlabBytes {
        /// Of it.
        theirs: u64,
        /// Of the others.
        ours: u64,
    },
    /// The cluster does not let it lend.
    #[error(
        "{0} shows a certificate that does not make it a donor: make its folder anew with `aquifer cluster join CLUSTER HOST --role donor`"
    )]
    NoDonor(String),
    /// Another name of a donor that is connected: two copies of a page there would be lost together.
    #[error("it is the donor that is connected as {0} already")]
    Twin(String),
}

/// What the donor is asked on.
struct Calls {
    channel: Channel<Stream>,
    /// When it was asked for a slab, if it has not answered yet.
    owed_since: Option<Instant>,
}

/// The connection to one donor.
pub struct Connection {
    donor: DonorId,
    welcome: Welcome,
    link: Arc<Link>,
    calls: Mutex<Calls>,
    calls_ender: Ender,
    notices_ender: Ender,
    homes: Mutex<BTreeMap<SlabId, Weak<Home>>>,
    returns: Arc<Returns>,
    /// Of itself, for the slabs that it borrows.
    own: Weak<Connection>,
}

impl Connection {
    /// Connects to a donor.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn new(
        address: &str,
        donor: DonorId,
        options: &BorrowerOptions,
        returns: &Arc<Returns>,
    ) -> Result<Arc<Connection>, ConnectError> {
        let (calls, welcome) = open(address, options, Role::Calls)?;
        let welcome =
            welcome.ok_or_else(|| stranger(address, ChannelError::Malformed("no welcome".into())))?;
        let token = random::from_hex::<32>(&welcome.token)
            .ok_or_else(|| stranger(address, ChannelError::Malformed("no token".into())))?;
        let (notices, _) = open(address, options, Role::Notices(welcome.token.clone()))?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let link = Link::new(&options.link, |staging| {
            transport::connect(&welcome.provider, host, welcome.port, &token, CONNECT_LIMIT, staging)
        })?;
        let end = |error| ConnectError::Unreachable { address: address.to_string(), reason: error };
        let calls_ender = calls.stream().ender().map_err(end)?;
        let notices_ender = notices.stream().ender().map_err(end)?;
        let connection = Arc::new_cyclic(|own| Connection {
            donor,
            welcome,
            link: Arc::new(link),
            calls: Mutex::new(Calls { channel: calls, owed_since: None }),
            calls_ender,
            notices_ender,
            homes: Mutex::default(),
            returns: Arc::clone(returns),
            own: Weak::clone(own),
        });
        let own = Weak::clone(&connection.own);
        let spawned = thread::Builder::new()
            .name("aq-borrower-asked".into())
            .spawn(move || helper::serve(|| answer_until_gone(&own, notices)));
        spawned.map_err(ConnectError::Thread)?;
        Ok(connection)
    }

    /// Which donor it is.
    pub fn donor(&self) -> DonorId {
        self.donor
    }

    /// Bytes of the donor's slabs.
    pub fn slab_bytes(&self) -> u64 {
        self.welcome.slab_bytes
    }

    /// Which donors fail with this one.
    pub fn domain(&self) -> &str {
        &self.welcome.domain
    }

    /// As which it is known under all its names.
    pub fn instance(&self) -> &str {
        &self.welcome.instance
    }

    /// Where it listens, as it says.
    pub fn listens_at(&self) -> SocketAddr {
        self.welcome.address
    }

    /// What carries its transfers.
    pub fn provider(&self) -> &str {
        self.link.provider()
    }

    /// What it has carried.
    pub fn traffic(&self) -> TrafficSeen {
        self.link.traffic().so_far()
    }

    /// Slabs that are borrowed here.
    pub fn slabs(&self) -> usize {
        self.homes().values().filter(|home| home.strong_count() > 0).count()
    }

    /// Whether it is of use.
    pub fn is_alive(&self) -> bool {
        self.link.end().is_none()
    }

    /// Why it is not.
    pub fn trouble(&self) -> String {
        self.link.end().map(|end| end.to_string()).unwrap_or_default()
    }

    /// Asks to keep a slab for a short time. Does not wait: for no other question, and for no answer.
    pub fn ask_for_slab(&self) -> Result<(), CallError> {
        let mut calls = match self.calls.try_lock() {
            Ok(calls) => calls,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(CallError::Busy),
        };
        self.settle(&mut calls, Instant::now())?;
        let sent = calls.channel.send(&Call::Reserve);
        calls.owed_since = Some(Instant::now());
        sent.map_err(|error| self.give_up(error))
    }

    /// Waits until that moment for what [`Connection::ask_for_slab`] asked for. A slab that comes later is not taken: the donor lets it go after a while.
    pub fn reserved(&self, until: Instant) -> Result<(u64, Offer), CallError> {
        let mut calls = self.calls();
        match self.settle(&mut calls, until)? {
            Some(Answer::Reserved { reservation, offer }) => Ok((reservation, offer)),
            Some(Answer::Refused(refusal)) => Err(refusal.into()),
            _ => Err(CallError::Nonsense),
        }
    }

    /// Waits until that moment for an answer that is owed, if there is one.
    fn settle(&self, calls: &mut Calls, until: Instant) -> Result<Option<Answer>, CallError> {
        let Some(since) = calls.owed_since else { return Ok(None) };
        match calls.channel.receive_until(until.max(Instant::now() + GLANCE), MESSAGE_BYTES_MAX) {
            Ok(answer) => {
                calls.owed_since = None;
                Ok(Some(answer))
            }
            Err(ChannelError::TimedOut) if since.elapsed() < MESSAGE_LIMIT => Err(CallError::Busy),
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// The donor does not keep to the rules: a late answer would be taken for one to another question.
    fn give_up(&self, error: ChannelError) -> CallError {
        self.link.close();
        error.into()
    }

    /// Lets go what was kept.
    pub fn cancel(&self, reservation: u64) -> Result<(), CallError> {
        self.call(&Call::Cancel(reservation)).map(drop)
    }

    /// Borrows what was kept.
    pub fn take(&self, reservation: u64) -> Result<Arc<Home>, CallError> {
        let Answer::Lent { slab, address, key } = self.call(&Call::Take(reservation))? else {
            return Err(CallError::Nonsense);
        };
        let lease = Lease { connection: Weak::clone(&self.own), slab, returns: Arc::clone(&self.returns) };
        let home = Home::new(Arc::clone(&self.link), Place { address, key }, self.donor, Box::new(lease));
        let home = Arc::new(home);
        self.homes().insert(slab, Arc::downgrade(&home));
        Ok(home)
    }

    /// Gives a slab back that nobody uses any more.
    pub fn give_back(&self, slab: SlabId) -> Result<(), CallError> {
        self.homes().remove(&slab);
        self.call(&Call::GiveBack(slab)).map(drop)
    }

    fn call(&self, call: &Call) -> Result<Answer, CallError> {
        let mut calls = self.calls();
        if self.link.end().is_some() {
            return Err(ChannelError::Closed.into());
        }
        if let Some(since) = calls.owed_since {
            self.settle(&mut calls, since + MESSAGE_LIMIT)?;
        }
        match calls.channel.ask(call) {
            Ok(Answer::Refused(refusal)) => Err(refusal.into()),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.give_up(error)),
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn homes(&self) -> MutexGuard<'_, BTreeMap<SlabId, Weak<Home>>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn home(&self, slab: SlabId) -> Option<Arc<Home>> {
        self.homes().get(&slab)?.upgrade()
    }

    fn reply(&self, notice: &Notice) -> Reply {
        match notice {
            Notice::Activity(slabs) => Reply::Uses(
                slabs.iter().map(|slab| self.home(*slab).map_or(0, |home| home.uses_per_1000_s())).collect(),
            ),
            Notice::Leave { slab, .. } => {
                if let Some(home) = self.home(*slab) {
                    home.ask_to_leave();
                }
                Reply::Left
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.link.close();
        self.calls_ender.end();
        self.notices_ender.end();
    }
}

/// Answers what the donor asks until one of the two is gone; the donor is gone then.
fn answer_until_gone(connection: &Weak<Connection>, mut notices: Channel<Stream>) {
    while let Ok(notice) = notices.wait_for_next::<Notice>() {
        let Some(connection) = connection.upgrade() else { return };
        if notices.send(&connection.reply(&notice)).is_err() {
            break;
        }
    }
    if let Some(connection) = connection.upgrade() {
        connection.link.close();
    }
}

pub(super) fn stranger(address: &str, reason: ChannelError) -> ConnectError {
    ConnectError::Stranger { address: address.to_string(), reason }
}

/// Opens a channel to a donor.
pub(super) fn open(
    address: &str,
    options: &BorrowerOptions,
    role: Role,
) -> Result<(Channel<Stream>, Option<Welcome>), ConnectError> {
    let mut resolved =
        address.to_socket_addrs().map_err(|_| ConnectError::Name(address.to_string()))?.peekable();
    let socket_address = resolved.next().ok_or_else(|| ConnectError::Name(address.to_string()))?;
    let unreachable = |reason| ConnectError::Unreachable { address: address.to_string(), reason };
    let socket = TcpStream::connect_timeout(&socket_address, CONNECT_LIMIT).map_err(unreachable)?;
    let stream = Stream::connected(socket, &options.security).map_err(unreachable)?;
    let mut channel = Channel::new(stream);
    let greeting = Greeting {
        version: VERSION,
        machine: machine_id(),
        name: options.name.clone(),
        weight: options.weight,
        role,
    };
    let welcome: Result<Option<Welcome>, Refusal> =
        channel.ask(&greeting).map_err(|reason| stranger(address, reason))?;
    if channel.stream().peer().is_some_and(|peer| !peer.may_be(HostRole::Donor)) {
        return Err(ConnectError::NoDonor(address.to_string()));
    }
    Ok((channel, welcome?))
}
