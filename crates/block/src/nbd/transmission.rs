//! The threads of one connection, each of which takes a request and answers it.
//!
//! There is no queue. The threads take turns at the stream: one reads a request and the bytes of a write, lets the next one read, does what was asked and
//! replies. So a request changes hands never, waits in no list, and needs no memory but that of the thread that has it.

use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffer::{PIECE_BYTES, RequestBuffer};
use super::ended::Ended;
use super::export::Export;
use super::reply::{Errno, simple};
use super::request::{Command, Request, TRANSFER_BYTES_MAX};
use super::stream::Stream;
use super::transfer::{Transfer, broken_off};

/// Requests of one connection.
pub struct Transmission<'a> {
    stream: &'a Stream,
    export: &'a Export,
    transfer: Transfer<'a>,
    /// Held by the thread that reads a request.
    turn: Mutex<Turn>,
    /// Held by the thread that sends a reply.
    sending: Mutex<()>,
}

/// Whether there are more requests, and if not, why.
#[derive(Default)]
struct Turn {
    is_over: bool,
    why: Option<Ended>,
}

/// A request whose bytes are off the stream.
struct Received {
    request: Request,
    /// Settled already: refused, or a long write that was done as it came.
    outcome: Option<Result<(), Errno>>,
}

impl<'a> Transmission<'a> {
    pub fn new(stream: &'a Stream, export: &'a Export, transfer: Transfer<'a>) -> Self {
        Transmission { stream, export, transfer, turn: Mutex::default(), sending: Mutex::default() }
    }

    /// Answers requests until there are no more; every thread of the connection does this.
    pub fn work(&self, buffer: &mut RequestBuffer) {
        loop {
            let mut turn = lock(&self.turn);
            if turn.is_over {
                return;
            }
            match self.receive(buffer) {
                Ok(Some(received)) => {
                    drop(turn);
                    if let Err(ended) = self.answer(&received, buffer) {
                        return self.end(ended);
                    }
                }
                Ok(None) => turn.is_over = true,
                Err(ended) => {
                    turn.is_over = true;
                    turn.why = Some(ended);
                }
            }
        }
    }

    /// Why it ended, when every thread has returned; `None` if the client left.
    pub fn why(self) -> Option<Ended> {
        self.turn.into_inner().unwrap_or_else(PoisonError::into_inner).why
    }

    /// Ends the connection without a reply: no client is there to read one. A thread that waits for the next
    /// request finds the end of the stream.
    fn end(&self, ended: Ended) {
        self.transfer.end();
        self.stream.shut_down(Shutdown::Both);
        let mut turn = lock(&self.turn);
        turn.is_over = true;
        // The first to fail knows why; to the others the stream has merely ended.
        if turn.why.as_ref().is_none_or(|why| matches!(why, Ended::BrokeOff)) {
            turn.why = Some(ended);
        }
    }

    /// The next request; `None` if the client has left.
    fn receive(&self, buffer: &mut RequestBuffer) -> Result<Option<Received>, Ended> {
        let mut head = [0; Request::BYTES];
        if !self.read_head(&mut head)? {
            return Ok(None);
        }
        let request = Request::parse(&head).map_err(Ended::NotARequest)?;
        if request.command == Command::Disconnect {
            return Ok(None);
        }
        let checked = request.check(self.export);
        let mut outcome = checked.err().map(Err);
        if request.command == Command::Write {
            if request.len_bytes > TRANSFER_BYTES_MAX {
                return Err(Ended::LongWrite(request.len_bytes));
            }
            match checked {
                Err(_) => self.transfer.skip(request.len_bytes, self.stream, buffer)?,
                Ok(()) if request.len_bytes as usize <= PIECE_BYTES => {
                    self.stream.receive(buffer.data(request.len_bytes as usize)).map_err(broken_off)?;
                }
                Ok(()) => outcome = Some(self.transfer.receive_long(&request, self.stream, buffer)?),
            }
        }
        Ok(Some(Received { request, outcome }))
    }

    /// Reads the head of a request; `false` at an end before its first byte.
    fn read_head(&self, head: &mut [u8; Request::BYTES]) -> Result<bool, Ended> {
        let mut stream = self.stream;
        let mut filled = 0;
        // Before its first byte a client may be silent for as long as it likes.
        let mut waiting = None;
        while filled < head.len() {
            match stream.read(&mut head[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(Ended::BrokeOff),
                Ok(read) => {
                    filled += read;
                    waiting.get_or_insert_with(|| self.stream.pace().receiving());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Ended::Io(error)),
            }
        }
        Ok(true)
    }

    fn answer(&self, received: &Received, buffer: &mut RequestBuffer) -> Result<(), Ended> {
        let request = &received.request;
        let outcome = match received.outcome {
            Some(Ok(())) => self.transfer.make_durable(request),
            Some(refused) => refused,
            None if request.command == Command::Read => match self.transfer.read_first(request, buffer) {
                Ok(first) => {
                    let _sending = lock(&self.sending);
                    return self.transfer.send_read(request, first, self.stream, buffer);
                }
                Err(errno) => Err(errno),
            },
            None => self.transfer.run(request, buffer),
        };
        let _sending = lock(&self.sending);
        Ok(self.stream.send(&simple(outcome, request.cookie))?)
    }
}

/// A thread that panicked left nothing half-way that the others would trip over: the stream's end comes with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
