//! Calls that hand memory over for later, when they have returned. The C library's aio is served: its buffers stay in place until the program takes the
//! outcome. io_uring and the kernel's aio are refused, as if the kernel had none: what they are handed goes through memory that the program shares
//! with the kernel, and is not seen. Programs have another way, as containers refuse these too.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use libc::{aiocb, c_int, c_long, c_uint, c_ulong, iovec, pid_t, sigevent, ssize_t};

use super::missing;
use crate::real::real;
use crate::route::{route, say, set_errno};
use crate::span::Pin;

// ---- Refused -----------------------------------------------------------------

/// Whether the kernel would be handed memory that it cannot use; says so once.
fn is_refused(what: &str) -> bool {
    let is_refused = route().is_some_and(|route| !route.settings.kernel_waits);
    if is_refused {
        say(&format!(
            "{what} is refused, because it uses memory behind the program's back; aquifer run --faults thread serves it"
        ));
    }
    is_refused
}

/// The answer to a system call of that number, if it is refused.
pub fn refusal(number: c_long) -> Option<c_long> {
    let what = match number {
        libc::SYS_io_uring_setup => "io_uring",
        libc::SYS_io_setup => "the kernel's aio (libaio)",
        _ => return None,
    };
    is_refused(what).then_some(-c_long::from(libc::ENOSYS))
}

/// Stands in front of a function that begins with one of these. They answer with the negative of an error.
macro_rules! refuses {
    ($(fn $name:ident($($argument:ident: $type:ty),*), $number:expr;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            match refusal($number) {
                Some(answer) => answer as c_int,
                None => match real!($name: unsafe extern "C" fn($($type),*) -> c_int) {
                    // SAFETY: passed on to the caller.
                    Some(real) => unsafe { real($($argument),*) },
                    None => -libc::ENOSYS,
                },
            }
        }
    )*};
}

refuses! {
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void), libc::SYS_io_uring_setup;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint), libc::SYS_io_uring_setup;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void), libc::SYS_io_uring_setup;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: usize),
        libc::SYS_io_uring_setup;
    fn io_setup(events: c_int, context: *mut c_void), libc::SYS_io_setup;
    fn io_queue_init(events: c_int, context: *mut c_void), libc::SYS_io_setup;
}

// ---- The C library's aio -----------------------------------------------------

/// What stays in place for each operation, by the address of its control block.
static UNDER_WAY: LazyLock<Mutex<HashMap<usize, [Pin; 2]>>> = LazyLock::new(Mutex::default);

fn under_way() -> MutexGuard<'static, HashMap<usize, [Pin; 2]>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No thread is at the operations while this lives.
pub struct Rest {
    _under_way: MutexGuard<'static, HashMap<usize, [Pin; 2]>>,
}

/// Keeps threads from the operations: around a fork.
pub fn rest() -> Rest {
    Rest { _under_way: under_way() }
}

/// Keeps the block and, if bytes are moved, the buffer in place until [`over`]; false if too much is pinned.
fn begin(block: *mut aiocb, moves: bool) -> bool {
    // SAFETY: the caller hands over a control block.
    let (buffer, bytes) = unsafe { ((*block).aio_buf, (*block).aio_nbytes) };
    let bytes = if moves { bytes } else { 0 };
    let (Some(block_pin), Some(pin)) =
        (Pin::only(block as usize, size_of::<aiocb>()), Pin::only(buffer as usize, bytes))
    else {
        return false;
    };
    if block_pin.is_needed() || pin.is_needed() {
        under_way().insert(block as usize, [block_pin, pin]);
    }
    true
}

/// The operation is over, or did not begin.
fn over(block: *const aiocb) {
    let pins = under_way().remove(&(block as usize));
    drop(pins);
}

/// Stands in front of a function that begins an operation.
macro_rules! begins {
    ($(fn $name:ident($($argument:ident: $type:ty,)? -> $block:ident), $moves:expr;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)? $block: *mut aiocb) -> c_int {
            type Begin = unsafe extern "C" fn($($type,)? *mut aiocb) -> c_int;
            let Some(real) = real!($name: Begin) else { return missing() };
            if !begin($block, $moves) {
                set_errno(libc::EAGAIN);
                return -1;
            }
            // SAFETY: passed on to the caller.
            let outcome = unsafe { real($($argument,)? $block) };
            if outcome != 0 {
                over($block);
            }
            outcome
        }
    )*};
}

begins! {
    fn aio_read(-> block), true;
    fn aio_read64(-> block), true;
    fn aio_write(-> block), true;
    fn aio_write64(-> block), true;
    fn aio_fsync(operation: c_int, -> block), false;
    fn aio_fsync64(operation: c_int, -> block), false;
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
            let outcome = unsafe { real(block) };
            over(block);
            outcome
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
            // SAFETY: the same.
            let moves = |block: *mut aiocb| unsafe { (*block).aio_lio_opcode } != libc::LIO_NOP;
            if !blocks.iter().all(|&block| begin(block, moves(block))) {
                blocks.iter().for_each(|&block| over(block));
                set_errno(libc::EAGAIN);
                return -1;
            }
            // SAFETY: passed on to the caller.
            let outcome = unsafe { real(mode, list, count, event) };
            if mode == libc::LIO_WAIT && outcome == 0 {
                blocks.iter().for_each(|&block| over(block));
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
/// The list has so many elements.
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
