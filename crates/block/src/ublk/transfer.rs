//! What a request does to the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aquifer_device::{AlignedBuffer, Device, DeviceError, ReadRequest, WriteRequest};

use super::request::{Operation, Request};
use crate::Report;

/// Requests of a queue that the kernel may hand over at once.
pub const DEPTH: usize = 32;

/// Requests that were handed over, each at its tag.
pub type Requests = [Option<Request>; DEPTH];

/// Bytes that a request was done with, and how that went; in the order of tags.
type Outcomes = [(usize, Result<(), DeviceError>); DEPTH];

/// The device, as all queues see it.
///
/// # Context
/// Allocates nothing, unless the device fails for the first time: that is said in a sentence.
pub struct Transfer {
    device: Arc<dyn Device>,
    report: Report,
    has_failed: AtomicBool,
}

impl Transfer {
    pub fn new(device: Arc<dyn Device>, report: Report) -> Self {
        Transfer { device, report, has_failed: AtomicBool::new(false) }
    }

    /// Does all reads, or all writes, among `requests` at once, and takes them out. A tag has the buffer of its number. `answer` hears the tag of each, what
    /// the kernel is to hear, and has the buffer.
    ///
    /// # Errors
    /// That of `answer`.
    pub fn run_at_once<E>(
        &self,
        operation: Operation,
        requests: &mut Requests,
        buffers: &mut [AlignedBuffer],
        mut answer: impl FnMut(u16, i32, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let chosen = |request: &Option<Request>| request.filter(|request| request.operation == operation);
        if !requests.iter().any(|request| chosen(request).is_some()) {
            return Ok(());
        }
        let pairs = buffers.iter_mut().zip(&*requests);
        let pairs = pairs.filter_map(|(buffer, request)| Some((buffer, chosen(request)?)));
        let outcomes =
            if operation == Operation::Read { self.read_all(pairs) } else { self.write_all(pairs) };
        let mut outcomes = outcomes.into_iter();
        for (tag, (buffer, request)) in buffers.iter_mut().zip(requests).enumerate() {
            if let Some(request) = request.take_if(|request| request.operation == operation) {
                let (given, outcome) = outcomes.next().expect("one for each");
                let result = match self.told(outcome) {
                    Ok(()) if given == whole(&request) => given as i32,
                    // Longer than the buffer.
                    Ok(()) => -libc::EINVAL,
                    Err(number) => -number,
                };
                answer(tag as u16, result, buffer)?;
            }
        }
        Ok(())
    }

    fn read_all<'b>(&self, pairs: impl Iterator<Item = (&'b mut AlignedBuffer, Request)>) -> Outcomes {
        let (mut reads, mut count) = (std::array::from_fn(|_| ReadRequest::new(0, &mut [])), 0);
        for (buffer, request) in pairs {
            let bytes = buffer.get_mut(..whole(&request)).unwrap_or_default();
            (reads[count], count) = (ReadRequest::new(request.offset, bytes), count + 1);
        }
        match &mut reads[..count] {
            // Without what a batch allocates.
            [read] => read.result = self.device.read_at(read.offset, read.buf),
            all => self.device.read_batch(all),
        }
        reads.map(|read| (read.buf.len(), read.result))
    }

    fn write_all<'b>(&self, pairs: impl Iterator<Item = (&'b mut AlignedBuffer, Request)>) -> Outcomes {
        let (mut writes, mut count) = (std::array::from_fn(|_| WriteRequest::new(0, &[])), 0);
        let mut are_durable = [false; DEPTH];
        for (buffer, request) in pairs {
            let bytes = buffer.get(..whole(&request)).unwrap_or_default();
            are_durable[count] = request.is_durable;
            (writes[count], count) = (WriteRequest::new(request.offset, bytes), count + 1);
        }
        match &mut writes[..count] {
            [write] => write.result = self.device.write_at(write.offset, write.buf),
            all => self.device.write_batch(all),
        }
        let synced = if are_durable.contains(&true) { self.device.sync() } else { Ok(()) };
        let mut are_durable = are_durable.into_iter();
        writes.map(|write| {
            let synced = if are_durable.next() == Some(true) { synced } else { Ok(()) };
            (write.buf.len(), write.result.and(synced))
        })
    }

    /// Does a request that neither reads nor writes, with `buffer` for zeros; gives what the kernel hears: bytes, or an error's number below 0.
    pub fn run(&self, request: &Request, buffer: &mut [u8]) -> i32 {
        match self.try_run(request, buffer) {
            Ok(()) => request.len_bytes.min(i32::MAX as u64) as i32,
            Err(number) => -number,
        }
    }

    fn try_run(&self, request: &Request, buffer: &mut [u8]) -> Result<(), i32> {
        let Request { operation, offset, len_bytes, is_durable } = *request;
        match operation {
            Operation::Flush => return self.told(self.device.sync()),
            Operation::Discard => self.told(self.device.discard(offset, len_bytes))?,
            Operation::WriteZeroes => self.write_zeroes(offset, len_bytes, buffer)?,
            Operation::Read | Operation::Write | Operation::Unknown => return Err(libc::EOPNOTSUPP),
        }
        if is_durable { self.told(self.device.sync()) } else { Ok(()) }
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64, buffer: &mut [u8]) -> Result<(), i32> {
        let piece = (buffer.len() as u64).min(len_bytes);
        let zeros = &mut buffer[..piece as usize];
        zeros.fill(0);
        let mut done = 0;
        while done < len_bytes {
            let len = piece.min(len_bytes - done);
            self.told(self.device.write_at(offset + done, &zeros[..len as usize]))?;
            done += len;
        }
        Ok(())
    }

    /// The error as the kernel hears it; the first is told in full.
    fn told(&self, outcome: Result<(), DeviceError>) -> Result<(), i32> {
        outcome.map_err(|error| {
            if !self.has_failed.swap(true, Relaxed) {
                (self.report)(&error.to_string());
            }
            number(&error)
        })
    }
}

fn whole(request: &Request) -> usize {
    usize::try_from(request.len_bytes).unwrap_or(usize::MAX)
}

fn number(error: &DeviceError) -> i32 {
    match error {
        DeviceError::Full { .. } | DeviceError::WornOut { .. } => libc::ENOSPC,
        DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. } => libc::EINVAL,
        DeviceError::Io { errno: libc::ENOSPC, .. } => libc::ENOSPC,
        // Others say something about the device here, and to the kernel about its request: to try it again, say.
        DeviceError::Io { .. } | DeviceError::ShortTransfer { .. } => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_device::{AlignedBuffer, FaultKind, FaultPlan, Faulty, MemoryDevice, Operation as Call};
    use std::sync::Mutex;

    const FLUSH: Request =
        Request { operation: Operation::Flush, is_durable: false, offset: 0, len_bytes: 0 };

    fn request(operation: Operation, offset: u64, len_bytes: u64) -> Request {
        Request { operation, is_durable: false, offset, len_bytes }
    }

    /// Does a request as a queue does it that has no other.
    fn run(transfer: &Transfer, request: &Request, buffer: &mut AlignedBuffer) -> i32 {
        let mut heard = None;
        for operation in [Operation::Read, Operation::Write] {
            let mut requests: Requests = [None; DEPTH];
            requests[0] = Some(*request);
            let buffers = std::slice::from_mut(buffer);
            let answer = |_, result, _: &mut [u8]| -> Result<(), ()> {
                heard = Some(result);
                Ok(())
            };
            transfer.run_at_once(operation, &mut requests, buffers, answer).unwrap();
        }
        heard.unwrap_or_else(|| transfer.run(request, buffer))
    }

    type Sentences = Arc<Mutex<Vec<String>>>;

    fn over(plan: FaultPlan) -> (Transfer, Arc<Faulty<MemoryDevice>>, Sentences) {
        let device = Arc::new(Faulty::new(MemoryDevice::new(1 << 20, 512), plan));
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let report: Report = Arc::new(move |sentence: &str| heard.lock().unwrap().push(sentence.to_owned()));
        let shared: Arc<dyn Device> = Arc::<Faulty<MemoryDevice>>::clone(&device);
        (Transfer::new(shared, report), device, said)
    }

    #[test]
    fn each_operation_does_what_it_is_called() {
        let (transfer, device, _) = over(FaultPlan::default());
        let mut buffer = AlignedBuffer::new(4096);
        buffer.fill(7);
        assert_eq!(run(&transfer, &request(Operation::Write, 512, 4096), &mut buffer), 4096);
        buffer.fill(0);
        assert_eq!(run(&transfer, &request(Operation::Read, 1024, 512), &mut buffer), 512);
        assert!(buffer[..512] == [7; 512] && buffer[512..] == [0; 3584]);
        // Longer than the buffer, which is of other bytes.
        buffer.fill(9);
        assert_eq!(run(&transfer, &request(Operation::WriteZeroes, 0, 10240), &mut buffer), 10240);
        assert_eq!(run(&transfer, &request(Operation::Read, 512, 4096), &mut buffer), 4096);
        assert!(buffer.iter().all(|&byte| byte == 0));
        assert_eq!(run(&transfer, &request(Operation::Discard, 0, 1 << 20), &mut buffer), 1 << 20);
        assert_eq!(device.calls(Call::Sync), 0);
        assert_eq!(run(&transfer, &FLUSH, &mut buffer), 0);
        let durable = Request { is_durable: true, ..request(Operation::Write, 0, 512) };
        assert_eq!(run(&transfer, &durable, &mut buffer), 512);
        assert_eq!(device.calls(Call::Sync), 2);
    }

    #[test]
    fn requests_at_once_have_their_own_bytes_and_outcomes() {
        let plan = FaultPlan::default().on_nth(Call::Write, 2, FaultKind::NoSpace);
        let (transfer, device, _) = over(plan);
        let mut buffers: Vec<_> = (0..DEPTH).map(|_| AlignedBuffer::new(4096)).collect();
        let mut requests: Requests = [None; DEPTH];
        for (tag, operation, len) in
            [(1, Operation::Write, 512), (4, Operation::Write, 512), (7, Operation::Write, 8192)]
        {
            buffers[tag].fill(tag as u8);
            let is_durable = tag == 1;
            requests[tag] = Some(Request { is_durable, ..request(operation, tag as u64 * 4096, len) });
        }
        requests[5] = Some(FLUSH);
        let mut run = |operation, requests: &mut Requests| {
            let mut heard = Vec::new();
            let outcome: Result<(), ()> =
                transfer.run_at_once(operation, requests, &mut buffers, |tag, result, buffer| {
                    heard.push((tag, result, buffer[0]));
                    Ok(())
                });
            outcome.unwrap();
            heard
        };
        assert_eq!(run(Operation::Read, &mut requests), []);
        let heard = run(Operation::Write, &mut requests);
        assert_eq!(heard, [(1, 512, 1), (4, -libc::ENOSPC, 4), (7, -libc::EINVAL, 7)]);
        assert_eq!((device.calls(Call::Sync), requests[5]), (1, Some(FLUSH)));
        requests[30] = Some(request(Operation::Read, 4096, 512));
        requests[31] = Some(request(Operation::Read, 4 * 4096, 512));
        assert_eq!(run(Operation::Read, &mut requests), [(30, 512, 1), (31, 512, 0)]);
        assert_eq!(requests.iter().flatten().count(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (transfer, ..) = over(FaultPlan::default());
        let mut buffer = AlignedBuffer::new(4096);
        for (operation, offset, len, number) in [
            (Operation::Unknown, 0, 512, libc::EOPNOTSUPP),
            (Operation::Read, 0, 8192, libc::EINVAL),
            (Operation::Write, 0, 8192, libc::EINVAL),
            (Operation::Read, 1 << 20, 512, libc::EINVAL),
            (Operation::Write, u64::MAX, 512, libc::EINVAL),
            (Operation::Read, 1, 512, libc::EINVAL),
        ] {
            assert_eq!(
                run(&transfer, &request(operation, offset, len), &mut buffer),
                -number,
                "{operation:?}"
            );
        }
    }

    #[test]
    fn the_first_failure_is_told() {
        let plan = FaultPlan::default()
            .on_nth(Call::Write, 1, FaultKind::Eio)
            .on_nth(Call::Write, 2, FaultKind::NoSpace)
            .on_nth(Call::Sync, 1, FaultKind::Eio);
        let (transfer, _, said) = over(plan);
        let mut buffer = AlignedBuffer::new(4096);
        let write = request(Operation::Write, 0, 4096);
        assert_eq!(run(&transfer, &write, &mut buffer), -libc::EIO);
        assert_eq!(run(&transfer, &write, &mut buffer), -libc::ENOSPC);
        assert_eq!(run(&transfer, &FLUSH, &mut buffer), -libc::EIO);
        assert_eq!(run(&transfer, &write, &mut buffer), 4096);
        assert_eq!(said.lock().unwrap().len(), 1);
    }
}
