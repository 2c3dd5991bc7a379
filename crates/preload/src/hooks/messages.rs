//! Sockets: what is sent and received.

use std::ffi::c_void;

use libc::{c_int, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};

use crate::hooks::missing;
use crate::parts::{Kind, Manner, transfer, transfer_list};
use crate::place::{Place, Way};
use crate::real::real;
use crate::route::is_managed_address;
use crate::span::Pin;

const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// How a receiving call with these flags moves its bytes.
fn receiving(flags: c_int) -> Manner {
    Manner { way: Way::In, waits: flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0 }
}

/// A transfer between a socket and one buffer.
macro_rules! socket {
    ($(fn $name:ident($buffer:ty $(, room: $room:ty)?; flags $(, $more:ident: $type:ty)*), $manner:expr
        $(; $address:expr, $bytes:expr)*;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            buffer: $buffer,
            bytes: usize,
            $(room: $room,)?
            flags: c_int
            $(, $more: $type)*
        ) -> ssize_t {
            type Real = unsafe extern "C" fn(c_int, $buffer, usize, $($room,)? c_int $(, $type)*) -> ssize_t;
            let Some(real) = real!($name: Real) else { return missing() };
            $(let _pin = Pin::new($address as usize, $bytes as usize);)*
            transfer($manner(flags), || Kind::of(fd), buffer as usize, bytes, |part, _, bytes| {
                // SAFETY: passed on to the caller; the part is in its buffer.
                unsafe { real(fd, part as $buffer, bytes, $(room as $room,)? flags $(, $more)*) }
            })
        }
    )*};
}

fn sending(_flags: c_int) -> Manner {
    Manner::OUT
}

socket! {
    fn recv(*mut c_void; flags), receiving;
    fn __recv_chk(*mut c_void, room: usize; flags), receiving;
    fn send(*const c_void; flags), sending;
    fn recvfrom(*mut c_void; flags, address: *mut sockaddr, len: *mut socklen_t), receiving;
        address, ADDRESS_BYTES; len, 4;
    fn __recvfrom_chk(*mut c_void, room: usize; flags, address: *mut sockaddr, len: *mut socklen_t), receiving;
        address, ADDRESS_BYTES; len, 4;
    fn sendto(*const c_void; flags, address: *const sockaddr, len: socklen_t), sending; address, len;
}

/// Whether a part of the message is the heap's.
fn is_managed(message: *const msghdr, m: &msghdr) -> bool {
    let list = if m.msg_iov.is_null() || m.msg_iovlen > 1024 {
        &[]
    } else {
        // SAFETY: the message has that many buffers.
        unsafe { std::slice::from_raw_parts(m.msg_iov, m.msg_iovlen) }
    };
    [message as usize, m.msg_name as usize, m.msg_control as usize, m.msg_iov as usize]
        .into_iter()
        .chain(list.iter().map(|buffer| buffer.iov_base as usize))
        .any(is_managed_address)
}

/// Moves a message by calls of `call` with messages that are in place.
///
/// # Safety
/// `message` is NULL or a message.
unsafe fn message(
    manner: Manner,
    fd: c_int,
    message: *mut msghdr,
    mut call: impl FnMut(*mut msghdr) -> ssize_t,
) -> ssize_t {
    // SAFETY: passed on to the caller.
    let Some(m) = (unsafe { message.as_ref() }).filter(|m| is_managed(message, m)) else {
        return call(message);
    };
    let whole = *m;
    let mut name = Place::new(manner.way, whole.msg_name as usize, whole.msg_namelen as usize);
    let mut control = Place::new(manner.way, whole.msg_control as usize, whole.msg_controllen);
    // SAFETY: passed on to the caller.
    unsafe {
        transfer_list(
            manner,
            || Kind::of(fd),
            whole.msg_iov,
            whole.msg_iovlen,
            |list, count, at| {
                let mut part = whole;
                part.msg_iov = list.cast_mut();
                part.msg_iovlen = count as _;
                part.msg_name = name.address().cast();
                part.msg_control = control.address().cast();
                if at > 0 {
                    // Name and control data have gone with the first part.
                    (part.msg_control, part.msg_controllen) = (std::ptr::null_mut(), 0);
                    (part.msg_name, part.msg_namelen) = (std::ptr::null_mut(), 0);
                }
                let moved = call(&raw mut part);
                if moved >= 0 && at == 0 && manner.way == Way::In {
                    name.arrived(part.msg_namelen as usize);
                    control.arrived(part.msg_controllen);
                    (*message).msg_namelen = part.msg_namelen;
                    (*message).msg_controllen = part.msg_controllen;
                    (*message).msg_flags = part.msg_flags;
                }
                moved
            },
        )
    }
}

/// # Safety
/// As the manual page of `sendmsg` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, given: *const msghdr, flags: c_int) -> ssize_t {
    let real = real!(sendmsg: unsafe extern "C" fn(c_int, *const msghdr, c_int) -> ssize_t);
    let Some(real) = real else { return missing() };
    // SAFETY: passed on to the caller; what is sent is not changed.
    unsafe { message(Manner::OUT, fd, given.cast_mut(), |part| real(fd, part, flags)) }
}

/// # Safety
/// As the manual page of `recvmsg` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, given: *mut msghdr, flags: c_int) -> ssize_t {
    let real = real!(recvmsg: unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> ssize_t);
    let Some(real) = real else { return missing() };
    // SAFETY: passed on to the caller.
    unsafe { message(receiving(flags), fd, given, |part| real(fd, part, flags)) }
}

/// Whether a call with these messages must be done one by one: if anything is the heap's.
///
/// # Safety
/// The list has `count` messages, or is NULL.
unsafe fn any_managed(list: *const mmsghdr, count: usize) -> bool {
    let is_managed_at = |n| {
        // SAFETY: passed on to the caller.
        unsafe { is_managed(&raw const (*list.add(n)).msg_hdr, &(*list.add(n)).msg_hdr) }
    };
    !list.is_null() && (0..count).any(is_managed_at)
}

/// # Safety
/// As the manual page of `sendmmsg` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(fd: c_int, list: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    let real = real!(sendmmsg: unsafe extern "C" fn(c_int, *mut mmsghdr, u32, c_int) -> c_int);
    let Some(real) = real else { return missing() };
    // SAFETY: passed on to the caller.
    unsafe {
        if !any_managed(list, count as usize) {
            return real(fd, list, count, flags);
        }
        for n in 0..count {
            let entry = list.add(n as usize);
            let moved = sendmsg(fd, &raw const (*entry).msg_hdr, flags);
            if moved < 0 {
                return if n > 0 { n as c_int } else { -1 };
            }
            (*entry).msg_len = moved as u32;
        }
    }
    count as c_int
}

/// # Safety
/// As the manual page of `recvmmsg` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    list: *mut mmsghdr,
    count: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let real = real!(recvmmsg: unsafe extern "C" fn(c_int, *mut mmsghdr, u32, c_int, *mut timespec) -> c_int);
    let Some(real) = real else { return missing() };
    // SAFETY: passed on to the caller.
    unsafe {
        if !any_managed(list, count as usize) {
            let _timeout = Pin::new(timeout as usize, size_of::<timespec>());
            return real(fd, list, count, flags, timeout);
        }
        // As the kernel does, the time is looked at when a message has come.
        let end = timeout.as_ref().map(|left| std::time::Instant::now() + duration(left));
        let mut flags = flags;
        for n in 0..count {
            let entry = list.add(n as usize);
            let moved = recvmsg(fd, &raw mut (*entry).msg_hdr, flags & !libc::MSG_WAITFORONE);
            if moved < 0 {
                return if n > 0 { n as c_int } else { -1 };
            }
            (*entry).msg_len = moved as u32;
            if flags & libc::MSG_WAITFORONE != 0 {
                flags |= libc::MSG_DONTWAIT;
            }
            if end.is_some_and(|end| std::time::Instant::now() >= end) {
                return n as c_int + 1;
            }
        }
    }
    count as c_int
}

fn duration(time: &timespec) -> std::time::Duration {
    std::time::Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}
