//! What a request does to the device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aquifer_device::{Device, DeviceError};

use super::buffer::{PIECE_BYTES, RequestBuffer, pieces};
use super::ended::Ended;
use super::reply::{Errno, simple};
use super::request::{Command, Request};
use super::stream::Stream;

/// The device, as the requests of one connection see it.
///
/// # Context
/// Allocates nothing, unless the device fails for the first time: that is said in a sentence.
pub struct Transfer<'a> {
    pub device: &'a dyn Device,
    /// Told of the first failure; one line is enough for a device that fails for good.
    pub on_failure: &'a (dyn Fn(&DeviceError) + Sync),
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

impl<'a> Transfer<'a> {
    pub fn new(device: &'a dyn Device, on_failure: &'a (dyn Fn(&DeviceError) + Sync)) -> Self {
        Transfer { device, on_failure, has_failed: AtomicBool::new(false), is_over: AtomicBool::new(false) }
    }

    /// Long requests that nobody waits for any more end early.
    pub fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Takes the bytes of a write that is longer than a piece from the stream, and writes each piece as it comes.
    ///
    /// # Errors
    /// The stream's. An error of the device is in the inner result; the bytes after it are skipped.
    pub fn receive_long(
        &self,
        request: &Request,
        stream: &Stream,
        buffer: &mut RequestBuffer,
    ) -> Result<Result<(), Errno>, Ended> {
        let mut outcome = Ok(());
        for (offset, len) in pieces(request.offset, request.len_bytes) {
            let piece = buffer.data(len);
            stream.receive(piece).map_err(broken_off)?;
            if outcome.is_ok() {
                outcome = self.told(self.device.write_at(offset, piece));
            }
        }
        Ok(outcome)
    }

    /// Skips the bytes of a write that is refused.
    pub fn skip(&self, len: u32, stream: &Stream, buffer: &mut RequestBuffer) -> Result<(), Ended> {
        for (_, len) in pieces(0, len) {
            stream.receive(buffer.data(len)).map_err(broken_off)?;
        }
        Ok(())
    }

    /// Does a request that is not a read and was [checked](Request::check); the bytes of a write are in `buffer`.
    pub fn run(&self, request: &Request, buffer: &mut RequestBuffer) -> Result<(), Errno> {
        let done = match request.command {
            Command::Write => self.device.write_at(request.offset, buffer.data(request.len_bytes as usize)),
            Command::Flush => self.device.sync(),
            Command::Trim => self.device.discard(request.offset, request.len_bytes.into()),
            Command::WriteZeroes => return self.write_zeroes(request, buffer),
            Command::Read | Command::Disconnect | Command::Unknown(_) => Ok(()),
        };
        self.told(done)?;
        self.make_durable(request)
    }

    /// Makes the request's own bytes durable, if it wants that.
    pub fn make_durable(&self, request: &Request) -> Result<(), Errno> {
        let has_written = !matches!(request.command, Command::Read | Command::Flush);
        if request.is_durable() && has_written { self.told(self.device.sync()) } else { Ok(()) }
    }

    fn write_zeroes(&self, request: &Request, buffer: &mut RequestBuffer) -> Result<(), Errno> {
        let zeros = buffer.data(PIECE_BYTES.min(request.len_bytes as usize));
        zeros.fill(0);
        for (offset, len) in pieces(request.offset, request.len_bytes) {
            if self.is_over.load(Relaxed) {
                return Err(Errno::ESHUTDOWN);
            }
            self.told(self.device.write_at(offset, &zeros[..len]))?;
        }
        self.make_durable(request)
    }

    /// Reads the first piece; the reply can still be an error.
    pub fn read_first(&self, request: &Request, buffer: &mut RequestBuffer) -> Result<usize, Errno> {
        let len = PIECE_BYTES.min(request.len_bytes as usize);
        self.told(self.device.read_at(request.offset, buffer.data(len)))?;
        Ok(len)
    }

    /// Sends the first piece of a read behind its reply, and the others as they are read. The caller is the only one who sends.
    ///
    /// # Errors
    /// [`Ended::ReadBroke`]: the reply has said that all is well, so all that is left is to break off.
    pub fn send_read(
        &self,
        request: &Request,
        first: usize,
        stream: &Stream,
        buffer: &mut RequestBuffer,
    ) -> Result<(), Ended> {
        stream.send(buffer.with_reply(simple(Ok(()), request.cookie), first))?;
        for (offset, len) in pieces(request.offset, request.len_bytes).skip(1) {
            let piece = buffer.data(len);
            self.device.read_at(offset, piece).map_err(Ended::ReadBroke)?;
            stream.send(piece)?;
        }
        Ok(())
    }

    /// The error as the client hears it; the first is told in full.
    fn told(&self, outcome: Result<(), DeviceError>) -> Result<(), Errno> {
        outcome.map_err(|error| {
            if !self.has_failed.swap(true, Relaxed) {
                (self.on_failure)(&error);
            }
            error.into()
        })
    }
}

/// An end where more was owed.
pub fn broken_off(error: std::io::Error) -> Ended {
    if error.kind() == std::io::ErrorKind::UnexpectedEof { Ended::BrokeOff } else { Ended::Io(error) }
}
