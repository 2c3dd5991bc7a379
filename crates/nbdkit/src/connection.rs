//! One client's requests, and the memory that they need.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use aquifer_device::{AlignedBuffer, Device, DeviceError};

/// Bytes that are moved at a time; longer requests go in pieces of this.
pub const PIECE_BYTES: usize = 1 << 20;

/// What all connections share.
pub struct Served {
    device: Arc<dyn Device>,
    has_failed: AtomicBool,
    report: fn(&str),
}

impl Served {
    /// The first failure of `device` goes to `report`, as a sentence.
    pub fn new(device: Arc<dyn Device>, report: fn(&str)) -> Self {
        Served { device, has_failed: AtomicBool::new(false), report }
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// The error as the client hears it; the first is told in full.
    fn told(&self, outcome: Result<(), DeviceError>) -> Result<(), i32> {
        outcome.map_err(|error| {
            if !self.has_failed.swap(true, Relaxed) {
                (self.report)(&error.to_string());
            }
            number(&error)
        })
    }
}

/// One client.
///
/// Memory that clients' bytes come in is nbdkit's, at any address. Devices want whole blocks of memory, so bytes pass through a
/// buffer. There are as many as nbdkit does requests at once, made before the first request; a further request waits for one.
///
/// # Context
/// Nothing here allocates once a connection is made, unless the device fails for the first time.
pub struct Connection {
    served: Arc<Served>,
    free: Mutex<Vec<AlignedBuffer>>,
    is_free: Condvar,
}

impl Connection {
    /// A connection that does `threads` requests at once.
    pub fn new(served: Arc<Served>, threads: usize) -> Self {
        let buffer = || {
            let mut buffer = AlignedBuffer::new(PIECE_BYTES);
            // Its memory is there from now on: none has to be found while there is none.
            buffer.fill(0xAA);
            buffer
        };
        let free = (0..threads.max(1)).map(|_| buffer()).collect();
        Connection { served, free: Mutex::new(free), is_free: Condvar::new() }
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        self.served.device()
    }

    /// Reads `len` bytes at `offset` to `to`.
    ///
    /// # Errors
    /// A number of `errno`; what was read is then undefined.
    ///
    /// # Safety
    /// `to` has room for `len` bytes, which nobody else uses meanwhile.
    pub unsafe fn read(&self, to: *mut u8, len: u32, offset: u64) -> Result<(), i32> {
        self.check_blocks(offset, len)?;
        self.with_buffer(|buffer| {
            for piece in pieces(len) {
                let bytes = &mut buffer[..piece.len];
                self.served.told(self.device().read_at(offset + piece.begin as u64, bytes))?;
                // SAFETY: the caller's promise: the piece lies in its `len` bytes; the buffer is this connection's.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(piece.begin), piece.len) };
            }
            Ok(())
        })
    }

    /// Writes `len` bytes of `from` at `offset`; if it `is_durable`, they are when this returns.
    ///
    /// # Errors
    /// A number of `errno`; old and new blocks are then in any mixture.
    ///
    /// # Safety
    /// `from` has `len` bytes, which nobody changes meanwhile.
    pub unsafe fn write(&self, from: *const u8, len: u32, offset: u64, is_durable: bool) -> Result<(), i32> {
        self.check_blocks(offset, len)?;
        self.with_buffer(|buffer| {
            for piece in pieces(len) {
                let bytes = &mut buffer[..piece.len];
                // SAFETY: the caller's promise: the piece lies in its `len` bytes; the buffer is this connection's.
                unsafe { ptr::copy_nonoverlapping(from.add(piece.begin), bytes.as_mut_ptr(), piece.len) };
                self.served.told(self.device().write_at(offset + piece.begin as u64, bytes))?;
            }
            Ok(())
        })?;
        self.make_durable(is_durable)
    }

    /// Makes durable what was answered, to any client.
    ///
    /// # Errors
    /// A number of `errno`.
    pub fn flush(&self) -> Result<(), i32> {
        self.served.told(self.device().sync())
    }

    /// Says that nobody needs the range any more.
    ///
    /// # Errors
    /// A number of `errno`.
    pub fn trim(&self, len: u32, offset: u64, is_durable: bool) -> Result<(), i32> {
        self.check_blocks(offset, len)?;
        self.served.told(self.device().discard(offset, len.into()))?;
        self.make_durable(is_durable)
    }

    /// Fills the range with zeros, in pieces.
    ///
    /// # Errors
    /// A number of `errno`; old blocks and zeros are then in any mixture.
    pub fn zero(&self, len: u32, offset: u64, is_durable: bool) -> Result<(), i32> {
        self.check_blocks(offset, len)?;
        self.with_buffer(|buffer| {
            buffer[..PIECE_BYTES.min(len as usize)].fill(0);
            for piece in pieces(len) {
                self.served
                    .told(self.device().write_at(offset + piece.begin as u64, &buffer[..piece.len]))?;
            }
            Ok(())
        })?;
        self.make_durable(is_durable)
    }

    fn make_durable(&self, is_durable: bool) -> Result<(), i32> {
        if is_durable { self.flush() } else { Ok(()) }
    }

    /// nbdkit has seen that the range lies in the device. Clients that have not asked for the size of blocks may still send others.
    fn check_blocks(&self, offset: u64, len: u32) -> Result<(), i32> {
        let block = self.device().block_bytes() as u64;
        let is_whole = offset.is_multiple_of(block) && u64::from(len).is_multiple_of(block);
        if is_whole { Ok(()) } else { Err(libc::EINVAL) }
    }

    fn with_buffer(&self, work: impl FnOnce(&mut AlignedBuffer) -> Result<(), i32>) -> Result<(), i32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = loop {
            match free.pop() {
                Some(buffer) => break buffer,
                None => free = self.is_free.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        let result = work(&mut buffer);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        self.is_free.notify_one();
        result
    }
}

/// A part of a request.
struct Piece {
    begin: usize,
    len: usize,
}

fn pieces(len: u32) -> impl Iterator<Item = Piece> {
    let len = len as usize;
    (0..len).step_by(PIECE_BYTES).map(move |begin| Piece { begin, len: (len - begin).min(PIECE_BYTES) })
}

/// The error's number, of those that the protocol has.
fn number(error: &DeviceError) -> i32 {
    match error {
        DeviceError::Full { .. } | DeviceError::WornOut { .. } => libc::ENOSPC,
        DeviceError::OutOfRange { .. } | DeviceError::Misaligned { .. } => libc::EINVAL,
        &DeviceError::Io { errno: errno @ (libc::EPERM | libc::ENOMEM | libc::ENOSPC), .. } => errno,
        DeviceError::Io { .. } | DeviceError::ShortTransfer { .. } => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_device::{FaultKind, FaultPlan, Faulty, MemoryDevice, Operation};
    use std::sync::atomic::AtomicU64;

    const DEVICE_BYTES: u64 = 16 << 20;

    fn over(plan: FaultPlan, report: fn(&str)) -> (Connection, Arc<Faulty<MemoryDevice>>) {
        let device = Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), plan));
        let shared: Arc<dyn Device> = Arc::<Faulty<MemoryDevice>>::clone(&device);
        (Connection::new(Arc::new(Served::new(shared, report)), 2), device)
    }

    fn write(connection: &Connection, bytes: &[u8], offset: u64, is_durable: bool) -> Result<(), i32> {
        // SAFETY: a slice has its bytes.
        unsafe { connection.write(bytes.as_ptr(), bytes.len() as u32, offset, is_durable) }
    }

    fn read(connection: &Connection, len: usize, offset: u64) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0x55; len + 1];
        // SAFETY: the vector has room; one byte in front makes its memory no block of anything.
        unsafe { connection.read(bytes[1..].as_mut_ptr(), len as u32, offset) }?;
        assert_eq!(bytes.remove(0), 0x55);
        Ok(bytes)
    }

    /// Bytes that differ everywhere.
    fn pattern(len: usize, seed: u64) -> Vec<u8> {
        (0..len as u64 / 8)
            .flat_map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed).to_be_bytes())
            .collect()
    }

    #[test]
    fn bytes_come_back_in_all_lengths_and_from_any_memory() {
        let (connection, device) = over(FaultPlan::default(), |_| ());
        for (seed, len) in [0, 512, 4096, 1 << 20, (1 << 20) + 512, 5 << 20].into_iter().enumerate() {
            let bytes = pattern(len, seed as u64);
            assert_eq!(write(&connection, &bytes, 1536, false), Ok(()));
            assert!(read(&connection, len, 1536).unwrap() == bytes, "{len} bytes");
        }
        assert_eq!(connection.zero(3 << 20, 512, false), Ok(()));
        assert!(read(&connection, 3 << 20, 512).unwrap().iter().all(|&byte| byte == 0));
        assert!(read(&connection, 512, 512 + (3 << 20)).unwrap().iter().any(|&byte| byte != 0));
        assert_eq!(device.calls(Operation::Sync), 0);
    }

    #[test]
    fn what_is_to_be_durable_is_synced_after_it_is_written() {
        let (connection, device) = over(FaultPlan::default(), |_| ());
        assert_eq!(write(&connection, &[1; 3 << 20], 0, true), Ok(()));
        assert_eq!(device.calls(Operation::Sync), 1);
        assert_eq!(connection.zero(512, 0, true), Ok(()));
        assert_eq!(connection.trim(512, 0, true), Ok(()));
        assert_eq!(connection.flush(), Ok(()));
        assert_eq!(device.calls(Operation::Sync), 4);
        assert_eq!(device.calls(Operation::Discard), 1);
    }

    #[test]
    fn parts_of_blocks_are_refused() {
        let (connection, device) = over(FaultPlan::default(), |_| ());
        assert_eq!(write(&connection, &[1; 512], 1, false), Err(libc::EINVAL));
        assert_eq!(write(&connection, &[1; 700], 0, false), Err(libc::EINVAL));
        assert_eq!(read(&connection, 100, 0), Err(libc::EINVAL));
        assert_eq!(connection.zero(512, 3, false), Err(libc::EINVAL));
        assert_eq!(connection.trim(1, 0, false), Err(libc::EINVAL));
        assert_eq!(device.calls(Operation::Write), 0);
    }

    #[test]
    fn a_failure_has_its_number_and_the_first_a_sentence() {
        static SAID: AtomicU64 = AtomicU64::new(0);
        let plan = FaultPlan::default()
            .on_nth(Operation::Write, 2, FaultKind::Eio)
            .on_nth(Operation::Write, 3, FaultKind::NoSpace)
            .on_nth(Operation::Read, 1, FaultKind::Eio)
            .on_nth(Operation::Sync, 1, FaultKind::Eio);
        let (connection, _) = over(plan, |sentence| {
            assert!(sentence.contains("failed"), "{sentence}");
            SAID.fetch_add(1, Relaxed);
        });
        // The second piece.
        assert_eq!(write(&connection, &pattern(2 << 20, 1), 0, false), Err(libc::EIO));
        assert_eq!(write(&connection, &[1; 512], 0, false), Err(libc::ENOSPC));
        assert_eq!(read(&connection, 512, 0), Err(libc::EIO));
        assert_eq!(write(&connection, &[1; 512], 0, true), Err(libc::EIO));
        assert_eq!(read(&connection, 512, 0), Ok(vec![1; 512]));
        assert_eq!(SAID.load(Relaxed), 1);
    }

    #[test]
    fn more_requests_than_buffers_wait_and_are_done() {
        let (connection, _) = over(FaultPlan::default(), |_| ());
        std::thread::scope(|scope| {
            for at in 0..8u64 {
                let connection = &connection;
                scope.spawn(move || {
                    for round in 0..100 {
                        let bytes = pattern(4096, at * 1000 + round);
                        assert_eq!(write(connection, &bytes, at * 4096, false), Ok(()));
                        assert!(read(connection, 4096, at * 4096).unwrap() == bytes);
                    }
                });
            }
        });
    }
}
