//! One borrower.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::lending::BorrowerId;
use crate::control::{Channel, ChannelError, Ender, Notice, Reply, Stream};
use crate::transport::{Place, Staging};

/// How long the thread of a link may take to do what it is told.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// How long a borrower may take to hear a notice, and to answer it: neither needs any work.
const NOTICE_LIMIT: Duration = Duration::from_secs(1);

/// What a link's thread is told.
pub enum Command {
    /// Lend this memory under this key.
    Lend(Arc<Staging>, u64, Sender<Result<Place, String>>),
    /// Take it back.
    TakeBack(Place, Sender<bool>),
}

/// One borrower.
pub struct Session {
    pub id: BorrowerId,
    /// As its certificate has it; empty without one.
    pub host: String,
    /// As it calls itself.
    pub name: String,
    pub token: [u8; 32],
    is_ended: AtomicBool,
    commands: Mutex<Sender<Command>>,
    /// For the link's thread, until it takes it.
    receiver: Mutex<Option<Receiver<Command>>>,
    notices: Mutex<Option<Channel<Stream>>>,
    has_notices: AtomicBool,
    calls: Ender,
}

impl Session {
    pub fn new(id: BorrowerId, host: String, name: String, token: [u8; 32], calls: Ender) -> Session {
        let (send, receive) = channel();
        Session {
            id,
            host,
            name,
            token,
            is_ended: AtomicBool::new(false),
            commands: Mutex::new(send),
            receiver: Mutex::new(Some(receive)),
            notices: Mutex::new(None),
            has_notices: AtomicBool::new(false),
            calls,
        }
    }

    /// What the link's thread is told from now on; only once, so that a token lets only one in.
    pub fn link(&self) -> Option<Receiver<Command>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks on this channel from now on. A second one is closed: a token is good for one.
    pub fn notify_on(&self, channel: Channel<Stream>) {
        if !self.has_notices.swap(true, Ordering::Relaxed) {
            *self.notices.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel);
        }
    }

    /// Lends memory. An error without a reason means that it may be lent later: the link's thread did not answer.
    pub fn lend(&self, memory: Arc<Staging>, key: u64) -> Result<Place, Option<String>> {
        let (send, receive) = channel();
        self.tell(Command::Lend(memory, key, send));
        match receive.recv_timeout(COMMAND_LIMIT) {
            Ok(outcome) => outcome.map_err(Some),
            Err(RecvTimeoutError::Timeout) => Err(None),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Some("the borrower has no connection for transfers".into()))
            }
        }
    }

    /// Takes memory back; `true` if nobody can reach it any more.
    pub fn take_back(&self, place: Place) -> bool {
        let (send, receive) = channel();
        self.tell(Command::TakeBack(place, send));
        receive.recv_timeout(COMMAND_LIMIT).unwrap_or(false)
    }

    fn tell(&self, command: Command) {
        // If nobody listens, nobody answers either.
        let _ = self.commands.lock().unwrap_or_else(PoisonError::into_inner).send(command);
    }

    /// Asks the borrower. A borrower that does not answer in time is not asked again.
    pub fn notify(&self, notice: &Notice) -> Result<Reply, ChannelError> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = notices.as_mut().ok_or(ChannelError::Closed)?;
        let reply = channel.ask_within(notice, NOTICE_LIMIT);
        if reply.is_err() {
            // A late answer would be taken for one to the next question.
            *notices = None;
        }
        reply
    }

    /// Lets the borrower go.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.calls.end();
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}
