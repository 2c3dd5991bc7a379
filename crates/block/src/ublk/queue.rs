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
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::abi::{QueueCommand, RESULT_OK, queue};
use super::descriptors::Descriptors;
use super::parameters::TRANSFER_BYTES_MAX;
use super::request::{Operation, Request};
use super::transfer::{DEPTH, Requests, Transfer};

/// A queue, ready to run on the thread that made it: the kernel answers no other.
pub struct Queue<'a> {
    transfer: &'a Transfer,
    /// Before the buffers: the kernel must be done with them first.
    commands: Commands,
    descriptors: Descriptors,
    buffers: Vec<AlignedBuffer>,
}

/// What is said to the kernel.
struct Commands {
    number: u16,
    ring: IoUring,
    file: File,
    /// Tags whose command is in the kernel.
    waiting: usize,
}

impl<'a> Queue<'a> {
    /// Makes the memory of a queue, and has the kernel send requests as soon as the device is started.
    pub fn new(file: File, number: u16, depth: u16, transfer: &'a Transfer) -> io::Result<Self> {
        assert!(usize::from(depth) <= DEPTH, "more tags than were asked for");
        let descriptors = Descriptors::map(&file, number, depth)?;
        let ring = IoUring::builder().build(u32::from(depth).next_power_of_two())?;
        let fresh = |_| {
            let mut buffer = AlignedBuffer::new(TRANSFER_BYTES_MAX as usize);
            // Its memory is there once it was written.
            buffer.fill(0xAA);
            buffer
        };
        let buffers: Vec<_> = (0..depth).map(fresh).collect();
        let commands = Commands { number, ring, file, waiting: 0 };
        let mut queue = Queue { transfer, commands, descriptors, buffers };
        for (tag, buffer) in (0..depth).zip(&mut queue.buffers) {
            queue.commands.send(queue::FETCH_REQ, tag, 0, buffer)?;
        }
        queue.commands.submit()?;
        Ok(queue)
    }

    /// Does requests until the device is stopped: of those that are there reads at once, then writes at once, then the others one by one.
    ///
    /// # Errors
    /// The ring's: the kernel fails the requests that are left.
    pub fn run(mut self) -> io::Result<()> {
        let mut requests: Requests = [None; DEPTH];
        let Self { transfer, commands, descriptors, buffers } = &mut self;
        loop {
            while let Some(completion) = commands.next() {
                commands.waiting -= 1;
                // Anything else is the device's end, as a number below 0: this tag gets no more requests.
                if completion.result() == RESULT_OK {
                    let tag = completion.user_data() as u16;
                    requests[usize::from(tag)] = Some(Request::parse(&descriptors.get(tag)));
                }
            }
            if requests.iter().all(Option::is_none) {
                if commands.waiting == 0 {
                    return Ok(());
                }
                commands.wait()?;
                continue;
            }
            for operation in [Operation::Read, Operation::Write] {
                transfer.run_at_once(operation, &mut requests, buffers, |tag, result, buffer| {
                    commands.send(queue::COMMIT_AND_FETCH_REQ, tag, result, buffer)
                })?;
                // Sends these answers now: the next request may take long.
                commands.submit()?;
            }
            for (tag, buffer) in buffers.iter_mut().enumerate() {
                if let Some(request) = requests[tag].take() {
                    let result = transfer.run(&request, buffer);
                    commands.send(queue::COMMIT_AND_FETCH_REQ, tag as u16, result, buffer)?;
                    commands.submit()?;
                }
            }
        }
    }
}

impl Commands {
    fn next(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Puts a command for a tag into the ring.
    fn send(&mut self, number: u32, tag: u16, result: i32, buffer: &mut [u8]) -> io::Result<()> {
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
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

    /// Submits what is in the ring, and waits for an answer.
    fn wait(&self) -> io::Result<()> {
        again(|| self.ring.submit_and_wait(1))
    }

    /// Submits what is in the ring, if there is anything.
    fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        again(|| self.ring.submit())
    }
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
