//! Messages on a stream: four bytes of length, little-endian, then JSON.

use std::io::{self, Read, Write};

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

/// A stream of messages.
#[derive(Debug)]
pub struct Channel<S> {
    stream: S,
}

impl<S: Read + Write> Channel<S> {
    /// Messages on this stream.
    pub fn new(stream: S) -> Self {
        Channel { stream }
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

    /// Waits for a message.
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
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        let len = u32::from_le_bytes(header) as usize;
        if len > bytes_max {
            return Err(ChannelError::Malformed(format!("a message of {len} bytes")));
        }
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| ChannelError::Malformed(format!("what is not a message ({error})")))
    }

    /// Sends a question and waits for its answer.
    ///
    /// # Errors
    /// [`ChannelError`]; the stream is of no use then.
    pub fn ask<T: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<T, ChannelError> {
        self.send(question)?;
        self.receive()
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
