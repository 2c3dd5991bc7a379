//! Messages on a stream: four bytes of length, little-endian, then JSON.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message: the activity of some thousands of slabs.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side closed the connection")]
    Closed,
    /// It took longer than it may.
    #[error("the other side did not answer in time")]
    TimedOut,
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// The other side says things that mean nothing.
    #[error("the other side sent {0}: it is no Aquifer of this version")]
    Malformed(String),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                ChannelError::Closed
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ChannelError::TimedOut,
            _ => ChannelError::Io(error),
        }
    }
}

/// How long a message may take from its beginning to its end, however its bytes come.
pub const MESSAGE_LIMIT: Duration = Duration::from_secs(5);

/// What messages travel on.
pub trait Wire: Read + Write {
    /// From this moment on reads and writes fail, with `TimedOut`; `None` is never.
    fn end_at(&mut self, _moment: Option<Instant>) {}
}

impl<T: AsRef<[u8]>> Wire for io::Cursor<T> where io::Cursor<T>: Read + Write {}
impl<W: Wire> Wire for &mut W {
    fn end_at(&mut self, moment: Option<Instant>) {
        (**self).end_at(moment);
    }
}

/// A stream of messages.
///
/// One deadline holds for a message as a whole: a peer that sends a byte now and then keeps nobody any longer than one that is silent.
#[derive(Debug)]
pub struct Channel<S> {
    stream: S,
    limit: Duration,
    /// Of a message that has begun to come.
    inbox: Vec<u8>,
}

impl<S: Wire> Channel<S> {
    /// Messages on this stream, each within [`MESSAGE_LIMIT`].
    pub fn new(stream: S) -> Self {
        Channel { stream, limit: MESSAGE_LIMIT, inbox: Vec::new() }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        self.send_within(message, MESSAGE_BYTES_MAX)
    }

    /// Sends a message of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn send_within(&mut self, message: &impl Serialize, bytes_max: usize) -> Result<(), ChannelError> {
        self.stream.end_at(Some(Instant::now() + self.limit));
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, message).map_err(|error| ChannelError::Io(error.into()))?;
        let len = bytes.len() - 4;
        if len > bytes_max {
            return Err(ChannelError::Malformed(format!("a message of {len} bytes")));
        }
        bytes[..4].copy_from_slice(&(len as u32).to_le_bytes());
        self.stream.write_all(&bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Waits for a message, until its deadline.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        self.receive_within(MESSAGE_BYTES_MAX)
    }

    /// Waits for a message of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn receive_within<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<T, ChannelError> {
        self.receive_until(Instant::now() + self.limit, bytes_max)
    }

    /// Waits for a message until a moment.
    ///
    /// # Errors
    /// [`ChannelError`]. After [`ChannelError::TimedOut`] the same message may be waited for again; after others the stream is of no use.
    pub fn receive_until<T: DeserializeOwned>(
        &mut self,
        moment: Instant,
        bytes_max: usize,
    ) -> Result<T, ChannelError> {
        self.stream.end_at(Some(moment));
        self.fill(4)?;
        let len = u32::from_le_bytes(self.inbox[..4].try_into().expect("four bytes")) as usize;
        if len > bytes_max {
            return Err(ChannelError::Malformed(format!("a message of {len} bytes")));
        }
        self.fill(4 + len)?;
        let message = serde_json::from_slice(&self.inbox[4..])
            .map_err(|error| ChannelError::Malformed(format!("what is not a message ({error})")));
        self.inbox.clear();
        message
    }

    /// Waits for as long as nothing comes, and then for the rest of the message until its deadline.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn wait_for_next<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        self.stream.end_at(None);
        self.fill(1)?;
        self.receive()
    }

    /// Waits until this number of the message's bytes are there, and takes no more.
    fn fill(&mut self, bytes: usize) -> Result<(), ChannelError> {
        while self.inbox.len() < bytes {
            let had = self.inbox.len();
            self.inbox.resize(bytes, 0);
            let came = self.stream.read(&mut self.inbox[had..]);
            self.inbox.truncate(had + came.as_ref().map_or(0, |came| *came));
            match came {
                Ok(0) => return Err(ChannelError::Closed),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends a question and waits for its answer, each until its deadline.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn ask<T: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<T, ChannelError> {
        self.send(question)?;
        self.receive()
    }

    /// As [`Channel::ask`], with another limit for each of the two.
    ///
    /// # Errors
    /// As [`Channel::ask`].
    pub fn ask_within<T: DeserializeOwned>(
        &mut self,
        question: &impl Serialize,
        limit: Duration,
    ) -> Result<T, ChannelError> {
        let usual = std::mem::replace(&mut self.limit, limit);
        let answer = self.ask(question);
        self.limit = usual;
        answer
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::control::{Call, SlabId};

    /// What comes out of a stream of these bytes.
    fn receive(bytes: &[u8]) -> Result<Call, ChannelError> {
        Channel::new(Cursor::new(bytes.to_vec())).receive()
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut stream = Cursor::new(Vec::new());
        for call in [Call::Ask, Call::Take(u64::MAX), Call::GiveBack(SlabId(7))] {
            let start = stream.get_ref().len();
            Channel::new(&mut stream).send(&call).expect("send");
            assert_eq!(receive(&stream.get_ref()[start..]).expect("receive"), call);
        }
    }

    /// Gives a byte at a time, and each only when it is waited for anew.
    struct Slow(Cursor<Vec<u8>>, bool);

    impl Read for Slow {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::TimedOut.into()) } else { self.0.read(&mut buf[..1]) }
        }
    }

    impl Write for Slow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Wire for Slow {}

    #[test]
    fn a_message_that_is_late_is_not_lost() {
        let mut bytes = Cursor::new(Vec::new());
        for call in [Call::Members, Call::Take(7)] {
            Channel::new(&mut bytes).send(&call).expect("send");
        }
        let len = bytes.get_ref().len();
        bytes.set_position(0);
        let mut channel = Channel::new(Slow(bytes, false));
        let mut came: Vec<Call> = Vec::new();
        for _ in 0..2 * len {
            if came.len() == 2 {
                break;
            }
            match channel.receive_until(Instant::now(), MESSAGE_BYTES_MAX) {
                Ok(call) => came.push(call),
                Err(error) => assert!(matches!(error, ChannelError::TimedOut), "{error}"),
            }
        }
        assert_eq!(came, [Call::Members, Call::Take(7)]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let malformed =
            [&[255, 255, 255, 255][..], &[1, 0, 1, 0], &[2, 0, 0, 0, b'{', b'}'], &[3, 0, 0, 0, 1, 2, 3]];
        for bytes in malformed {
            assert!(matches!(receive(bytes), Err(ChannelError::Malformed(_))), "{bytes:?}");
        }
        for bytes in [&[][..], &[9, 0], &[9, 0, 0, 0, b'"', b'A']] {
            assert!(matches!(receive(bytes), Err(ChannelError::Closed)), "{bytes:?}");
        }
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let mut bytes = (deep.len() as u32).to_le_bytes().to_vec();
        bytes.extend(deep.bytes());
        assert!(matches!(receive(&bytes), Err(ChannelError::Malformed(_))));
    }
}
