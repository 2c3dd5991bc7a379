//! One queue and its thread.
//!
//! Every tag of the queue has a buffer and one command in the kernel: at first one that waits for a request, then ones that answer and wait for the next. So
//! there are never more commands than tags, the rings never overflow, and nothing is allocated once the queue runs.
//!
//! A buffer is the kernel's while its command is in the kernel, and this thread's between a request and its answer.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;

use aquifer_device::AlignedBuffer;
use io_uring::{IoUring, opcode, squeue, types};

use super::abi::{QueueCommand, RESULT_OK, queue};
use super::descriptors::Descriptors;
use super::parameters::TRANSFER_BYTES_MAX;
use super::request::Request;
use super::transfer::Transfer;

/// A queue, ready to run on the thread that made it: the kernel answers no other.
pub struct Queue<'a> {
    number: u16,
    transfer: &'a Transfer,
    /// Before the buffers: the kernel must be done with them first.
    ring: IoUring,
    file: File,
    descriptors: Descriptors,
    buffers: Vec<AlignedBuffer>,
    /// Tags whose command is in the kernel.
    waiting: usize,
}

impl<'a> Queue<'a> {
    /// Makes the memory of a queue, and has the kernel send requests as soon as the device is started.
    pub fn new(file: File, number: u16, depth: u16, transfer: &'a Transfer) -> io::Result<Self> {
        let descriptors = Descriptors::map(&file, number, depth)?;
        let ring = IoUring::builder().build(u32::from(depth).next_power_of_two())?;
        let fresh = |_| {
            let mut buffer = AlignedBuffer::new(TRANSFER_BYTES_MAX as usize);
            // Its memory is there once it was written.
            buffer.fill(0xAA);
            buffer
        };
        let buffers = (0..depth).map(fresh).collect();
        let mut queue = Queue { number, transfer, ring, file, descriptors, buffers, waiting: 0 };
        for tag in 0..depth {
            queue.send(queue::FETCH_REQ, tag, 0)?;
        }
        submit(&queue.ring)?;
        Ok(queue)
    }

    /// Does requests until the device is stopped.
    ///
    /// # Errors
    /// The ring's: the kernel fails the requests that are left.
    pub fn run(mut self) -> io::Result<()> {
        while self.waiting > 0 {
            let next = self.ring.completion().next();
            let Some(completion) = next else {
                wait(&self.ring)?;
                continue;
            };
            self.waiting -= 1;
            // Anything else is the device's end, as a number below 0: this tag gets no more requests.
            if completion.result() == RESULT_OK {
                let tag = completion.user_data() as u16;
                let request = Request::parse(&self.descriptors.get(tag));
                let result = self.transfer.run(&request, &mut self.buffers[usize::from(tag)]);
                self.send(queue::COMMIT_AND_FETCH_REQ, tag, result)?;
                // Sends this answer now: the next request may take long.
                submit(&self.ring)?;
            }
        }
        Ok(())
    }

    /// Puts a command for a tag into the ring.
    fn send(&mut self, number: u32, tag: u16, result: i32) -> io::Result<()> {
        let address = self.buffers[usize::from(tag)].as_mut_ptr().expose_provenance() as u64;
        let command = QueueCommand { queue: self.number, tag, result, address };
        let entry: squeue::Entry = opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), number)
            .cmd(bytes_of(&command))
            .build()
            .user_data(tag.into());
        // SAFETY: the buffer lives longer than the ring, and nobody here touches it before the command is answered.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::other("the ring is full"))?;
        self.waiting += 1;
        Ok(())
    }
}

/// Submits what is in the ring, and waits for an answer.
fn wait(ring: &IoUring) -> io::Result<()> {
    again(|| ring.submit_and_wait(1))
}

/// Submits what is in the ring.
fn submit(ring: &IoUring) -> io::Result<()> {
    again(|| ring.submit())
}

/// Signals interrupt, and change nothing; the kernel may want to be asked again when it is short of memory.
fn again(call: impl Fn() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match call() {
            Ok(_) => return Ok(()),
            Err(error)
                if error.kind() == ErrorKind::Interrupted
                    || matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) =>
            {
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
    }
}

/// The command in the room that an entry has for it.
fn bytes_of(command: &QueueCommand) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&command.queue.to_ne_bytes());
    bytes[2..4].copy_from_slice(&command.tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&command.result.to_ne_bytes());
    bytes[8..].copy_from_slice(&command.address.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_where_the_structure_has_them() {
        let command = QueueCommand { queue: 0x0102, tag: 0x0304, result: -5, address: 0x1112_1314_1516_1718 };
        let bytes = bytes_of(&command);
        assert_eq!(bytes[..2], command.queue.to_ne_bytes());
        assert_eq!(bytes[2..4], command.tag.to_ne_bytes());
        assert_eq!(bytes[4..8], command.result.to_ne_bytes());
        assert_eq!(bytes[8..], command.address.to_ne_bytes());
    }
}
