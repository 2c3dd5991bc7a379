//! Where borrowers connect to.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Served;
use super::passing::{DELAY_MAX, Passing};
use crate::random;
use crate::transport::TransportError;
use crate::transport::fabric::Token;

/// How many numbers are tried that others have.
const TRIES: u32 = 64;
/// How long who has connected may take to show its token: it has it at hand.
const TOKEN_LIMIT: Duration = Duration::from_millis(200);

/// A number at which a donor waits for borrowers of its machine.
#[derive(Debug)]
pub struct Listener {
    passing: Passing,
    number: u16,
    delay: Duration,
}

impl Listener {
    /// Waits at this number. 0 is any that is free.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn new(number: u16) -> Result<Listener, TransportError> {
        let mut left = if number == 0 { TRIES } else { 1 };
        loop {
            left -= 1;
            let number = if number == 0 { any()? } else { number };
            match Passing::listen(number) {
                Ok(passing) => return Ok(Listener { passing, number, delay: Duration::ZERO }),
                Err(Errno::ADDRINUSE) if left > 0 => {}
                Err(Errno::ADDRINUSE) => return Err(TransportError::InUse(format!("number {number}"))),
                Err(error) => return Err(failed("making a socket for borrowers of this machine", error)),
            }
        }
    }

    /// The same; each transfer of those who connect takes at least this long, at most [`DELAY_MAX`], as over a network.
    #[must_use]
    pub fn delayed_by(self, delay: Duration) -> Listener {
        Listener { delay: delay.min(DELAY_MAX), ..self }
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Waits for somebody who wants to connect, for at most so long.
    ///
    /// # Errors
    /// The number is of no use any more. A peer without a token is refused, and counts as no request.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Request>, TransportError> {
        let waiting = |error| failed("waiting for borrowers", error);
        if !self.passing.wait(limit).map_err(waiting)? {
            return Ok(None);
        }
        let passing = match self.passing.accept() {
            Ok(passing) => passing,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(waiting(error)),
        };
        Ok(token(&passing).map(|token| Request { passing, token, delay: self.delay }))
    }
}

fn any() -> Result<u16, TransportError> {
    let bytes = random::bytes()
        .map_err(|error| TransportError::Failed { doing: "a random number", reason: error.to_string() })?;
    Ok(u16::from_le_bytes(bytes).max(1))
}

fn token(passing: &Passing) -> Option<Token> {
    let until = Instant::now() + TOKEN_LIMIT;
    loop {
        match passing.receive() {
            Ok(packet) => return packet.memory.is_none().then_some(packet.bytes),
            Err(Errno::AGAIN) => {}
            Err(_) => return None,
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || passing.wait(left).is_err() {
            return None;
        }
    }
}

pub fn failed(doing: &'static str, error: Errno) -> TransportError {
    TransportError::Failed { doing, reason: std::io::Error::from(error).to_string() }
}

/// Somebody who wants to connect. Refused when it is dropped.
#[derive(Debug)]
pub struct Request {
    passing: Passing,
    token: Token,
    delay: Duration,
}

impl Request {
    /// What it shows.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Lets it in.
    ///
    /// # Errors
    /// It is gone already.
    pub fn accept(self) -> Result<Served, TransportError> {
        Served::new(self.passing, self.delay)
    }
}
