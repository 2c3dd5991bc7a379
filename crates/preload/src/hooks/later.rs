//! Calls that hand memory over for later, when they have returned: the C library's aio, whose buffers stay in place until the program takes the outcome.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use libc::{aiocb, c_int, c_ulong, iovec, pid_t, sigevent, ssize_t};

use super::{missing, transfer};
use crate::place::Way;
use crate::real::real;
use crate::route::set_errno;
use crate::span::Pin;

// ---- The C library's aio -----------------------------------------------------

/// An operation.
struct Operation {
    block: Pin,
    buffer: Pin,
    /// Bytes that were moved at once, because too much is pinned: the C library was given an operation of none.
    moved: Option<isize>,
    /// Bytes that the control block says.
    bytes: usize,
}

/// Operations with managed memory, by the addresses of their control blocks.
static UNDER_WAY: LazyLock<Mutex<HashMap<usize, Operation>>> = LazyLock::new(Mutex::default);

fn under_way() -> MutexGuard<'static, HashMap<usize, Operation>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No thread is at the operations while this lives.
pub struct Rest {
    _under_way: MutexGuard<'static, HashMap<usize, Operation>>,
}

/// Keeps threads from the operations: around a fork.
pub fn rest() -> Rest {
    Rest { _under_way: under_way() }
}

/// In a child, which has none of its parent's operations; what they hold there is nobody's to give back.
pub fn forget() {
    under_way().drain().for_each(std::mem::forget);
}

/// Keeps block and buffer in place until [`over`].
///
/// # Safety
/// `block` is a control block whose operation has not begun.
unsafe fn begin(block: *mut aiocb, way: Option<Way>) -> Result<(), Failed> {
    // SAFETY: the caller says so.
    let (buffer, bytes) = unsafe { ((*block).aio_buf as usize, (*block).aio_nbytes) };
    let Some(block_pin) = Pin::only(block as usize, size_of::<aiocb>()) else {
        set_errno(libc::EAGAIN);
        return Err(Failed);
    };
    let mut operation = Operation { block: block_pin, buffer: Pin::new(0, 0), moved: None, bytes };
    if let Some(way) = way {
        if let Some(pin) = Pin::only(buffer, bytes) {
            operation.buffer = pin;
        } else {
            // SAFETY: the same.
            let moved = unsafe { move_now(block, way) };
            if moved < 0 {
                return Err(Failed);
            }
            operation.moved = Some(moved);
            // SAFETY: the same.
            unsafe { (*block).aio_nbytes = 0 };
        }
    }
    if operation.block.is_needed() || operation.buffer.is_needed() || operation.moved.is_some() {
        under_way().insert(block as usize, operation);
    }
    Ok(())
}

/// `errno` says why.
struct Failed;

/// Moves the bytes of an operation.
///
/// # Safety
/// As for [`begin`].
unsafe fn move_now(block: *mut aiocb, way: Way) -> isize {
    // SAFETY: the caller says so.
    unsafe {
        let (fd, buffer, bytes, at) =
            ((*block).aio_fildes, (*block).aio_buf, (*block).aio_nbytes, (*block).aio_offset);
        let moved = match way {
            Way::In => transfer::pread64(fd, buffer, bytes, at),
            Way::Out => transfer::pwrite64(fd, buffer, bytes, at),
        };
        match (moved, *libc::__errno_location(), way) {
            // What has no positions is moved in order.
            (-1, libc::ESPIPE, Way::In) => transfer::read(fd, buffer, bytes),
            (-1, libc::ESPIPE, Way::Out) => transfer::write(fd, buffer, bytes),
            _ => moved,
        }
    }
}

/// The operation is over, or did not begin; tells how much was moved before it began.
///
/// # Safety
/// `block` is its control block.
unsafe fn over(block: *mut aiocb) -> Option<isize> {
    let operation = under_way().remove(&(block as usize))?;
    if operation.moved.is_some() {
        // SAFETY: the caller says so.
        unsafe { (*block).aio_nbytes = operation.bytes };
    }
    operation.moved
}

/// Stands in front of a function that begins an operation.
macro_rules! begins {
    ($(fn $name:ident($($argument:ident: $type:ty,)? -> $block:ident), $way:expr;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)? $block: *mut aiocb) -> c_int {
            type Begin = unsafe extern "C" fn($($type,)? *mut aiocb) -> c_int;
            let Some(real) = real!($name: Begin) else { return missing() };
            // SAFETY: passed on to the caller.
            unsafe {
                if begin($block, $way).is_err() {
                    return -1;
                }
                let outcome = real($($argument,)? $block);
                if outcome != 0 {
                    over($block);
                }
                outcome
            }
        }
    )*};
}

begins! {
    fn aio_read(-> block), Some(Way::In);
    fn aio_read64(-> block), Some(Way::In);
    fn aio_write(-> block), Some(Way::Out);
    fn aio_write64(-> block), Some(Way::Out);
    fn aio_fsync(operation: c_int, -> block), None;
    fn aio_fsync64(operation: c_int, -> block), None;
}

/// Stands in front of a function that takes the outcome of an operation.
macro_rules! takes {
    ($(fn $name:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(block: *mut aiocb) -> ssize_t {
            let Some(real) = real!($name: unsafe extern "C" fn(*mut aiocb) -> ssize_t) else { return missing() };
            // SAFETY: passed on to the caller.
            unsafe {
                let outcome = real(block);
                over(block).filter(|_| outcome == 0).unwrap_or(outcome)
            }
        }
    )*};
}

takes! {
    fn aio_return;
    fn aio_return64;
}

/// Stands in front of a function that begins many operations, and may wait for them.
macro_rules! begins_list {
    ($(fn $name:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            mode: c_int,
            list: *const *mut aiocb,
            count: c_int,
            event: *mut sigevent,
        ) -> c_int {
            type Begin = unsafe extern "C" fn(c_int, *const *mut aiocb, c_int, *mut sigevent) -> c_int;
            let Some(real) = real!($name: Begin) else { return missing() };
            // SAFETY: the caller says so.
            let blocks = (0..count.max(0) as usize).map(|n| unsafe { *list.add(n) }).filter(|block| !block.is_null());
            let blocks: Vec<_> = blocks.collect();
            let end = || {
                for &block in &blocks {
                    // SAFETY: the same.
                    unsafe { over(block) };
                }
            };
            for &block in &blocks {
                // SAFETY: the same.
                unsafe {
                    let way = match (*block).aio_lio_opcode {
                        libc::LIO_READ => Some(Way::In),
                        libc::LIO_WRITE => Some(Way::Out),
                        _ => None,
                    };
                    if begin(block, way).is_err() {
                        end();
                        return -1;
                    }
                }
            }
            // SAFETY: passed on to the caller.
            let outcome = unsafe { real(mode, list, count, event) };
            if mode == libc::LIO_WAIT && outcome == 0 {
                // How much was moved is still to be told.
                let mut under_way = under_way();
                let done = |block: &usize| under_way.get(block).is_some_and(|operation| operation.moved.is_none());
                let done: Vec<_> = blocks.iter().map(|block| block.addr()).filter(done).collect();
                done.iter().for_each(|block| drop(under_way.remove(block)));
            }
            outcome
        }
    )*};
}

begins_list! {
    fn lio_listio;
    fn lio_listio64;
}

// ---- Memory of processes -------------------------------------------------------

/// The buffers of a list in place, and the list itself.
///
/// # Safety
/// The list at `list` has `count` elements.
unsafe fn in_place(list: *const iovec, count: c_ulong) -> Vec<Pin> {
    let mut pins = vec![Pin::new(list as usize, count as usize * size_of::<iovec>())];
    for n in 0..count.min(1024) as usize {
        // SAFETY: the caller says so.
        let part = unsafe { *list.add(n) };
        pins.push(Pin::new(part.iov_base as usize, part.iov_len));
    }
    pins
}

/// Stands in front of a function that copies between processes. Of others, what is absent there stays so.
macro_rules! copies {
    ($(fn $name:ident;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            process: pid_t,
            local: *const iovec,
            local_count: c_ulong,
            remote: *const iovec,
            remote_count: c_ulong,
            flags: c_ulong,
        ) -> ssize_t {
            type Copy =
                unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> ssize_t;
            let Some(real) = real!($name: Copy) else { return missing() };
            // SAFETY: passed on to the caller.
            unsafe {
                let _local = in_place(local, local_count);
                let _list = Pin::new(remote as usize, remote_count as usize * size_of::<iovec>());
                let _remote = (process == libc::getpid()).then(|| in_place(remote, remote_count));
                real(process, local, local_count, remote, remote_count, flags)
            }
        }
    )*};
}

copies! {
    fn process_vm_readv;
    fn process_vm_writev;
}
