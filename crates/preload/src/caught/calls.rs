//! What is done for one call.

use std::ffi::c_void;

use libc::{c_int, c_long, iovec, mmsghdr, msghdr};

use super::buffers::{self, Buffer};
use crate::hooks::raw::{direct, futex};
use crate::hooks::{arguments, descriptors, later, mapping, messages, process, refused};
use crate::parts::{Kind, Manner, transfer, transfer_list};
use crate::route::is_managed_address;
use crate::span::Pin;

type Arguments = [usize; 6];

/// What the kernel would have answered: the C library's functions have a part of it in `errno`.
fn answer(outcome: impl Into<i64>) -> c_long {
    match outcome.into() {
        // SAFETY: the thread's own errno.
        -1 => -c_long::from(unsafe { *libc::__errno_location() }),
        outcome => outcome,
    }
}

fn plainly(number: c_long, [a, b, c, d, e, f]: Arguments) -> c_long {
    // SAFETY: passed on to the program, which makes this call.
    unsafe { direct(number, a, b, c, d, e, f) }
}

/// Makes the call, with its buffers in place; `None` if it must be made by the program's own instruction, as it changes the thread's
/// stack, registers or mask.
pub fn make(number: c_long, arguments: Arguments) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let fd = a as c_int;
    Some(match number {
        libc::SYS_clone
        | libc::SYS_clone3
        | libc::SYS_fork
        | libc::SYS_vfork
        | libc::SYS_sigaltstack
        | libc::SYS_rt_sigreturn
        | libc::SYS_rt_sigprocmask => return None,
        libc::SYS_read | libc::SYS_getdents64 | libc::SYS_write => {
            let manner = if number == libc::SYS_write { Manner::OUT } else { Manner::IN };
            answer(transfer(
                manner,
                || Kind::of(fd),
                b,
                c,
                |part, _, bytes| plainly(number, [a, part as usize, bytes, d, e, f]) as isize,
            ) as i64)
        }
        libc::SYS_pread64 | libc::SYS_pwrite64 => {
            let manner = if number == libc::SYS_pwrite64 { Manner::OUT } else { Manner::IN };
            answer(transfer(
                manner,
                || Kind::of(fd),
                b,
                c,
                |part, at, bytes| plainly(number, [a, part as usize, bytes, d + at, e, f]) as isize,
            ) as i64)
        }
        libc::SYS_getrandom => answer(transfer(
            Manner::IN,
            || Kind::File,
            a,
            b,
            |part, _, bytes| plainly(number, [part as usize, bytes, c, d, e, f]) as isize,
        ) as i64),
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => vectored(Manner::IN, number, arguments),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => vectored(Manner::OUT, number, arguments),
        libc::SYS_io_uring_setup | libc::SYS_io_setup => {
            refused::refusal(number).unwrap_or_else(|| with_buffers(number, arguments))
        }
        libc::SYS_futex => answer(futex(number, a, b, c, d, e, f)),
        _ => by_function(number, arguments).unwrap_or_else(|| with_buffers(number, arguments)),
    })
}

/// Makes a call by the function that stands in front of the C library's, if there is one that does more than to bring buffers in.
fn by_function(number: c_long, [a, b, c, d, e, f]: Arguments) -> Option<c_long> {
    let (fd, memory) = (a as c_int, a as *mut c_void);
    // SAFETY: passed on to the program, which makes this call.
    let outcome: i64 = unsafe {
        match number {
            libc::SYS_recvfrom => {
                messages::recvfrom(fd, b as *mut _, c, d as c_int, e as *mut _, f as *mut _) as i64
            }
            libc::SYS_sendto => {
                messages::sendto(fd, b as *const _, c, d as c_int, e as *const _, f as u32) as i64
            }
            libc::SYS_recvmsg => messages::recvmsg(fd, b as *mut msghdr, c as c_int) as i64,
            libc::SYS_sendmsg => messages::sendmsg(fd, b as *const msghdr, c as c_int) as i64,
            libc::SYS_recvmmsg => {
                messages::recvmmsg(fd, b as *mut mmsghdr, c as u32, d as c_int, e as *mut _).into()
            }
            libc::SYS_sendmmsg => messages::sendmmsg(fd, b as *mut mmsghdr, c as u32, d as c_int).into(),
            libc::SYS_fcntl => arguments::fcntl(fd, b as c_int, c as *mut _).into(),
            libc::SYS_ioctl => arguments::ioctl(fd, b as u64, c as *mut _).into(),
            libc::SYS_execve => process::execve(a as *const _, b as *const _, c as *const _).into(),
            libc::SYS_process_vm_readv => {
                later::process_vm_readv(fd, b as *const _, c as u64, d as *const _, e as u64, f as u64) as i64
            }
            libc::SYS_process_vm_writev => {
                later::process_vm_writev(fd, b as *const _, c as u64, d as *const _, e as u64, f as u64)
                    as i64
            }
            libc::SYS_close => descriptors::close(fd).into(),
            libc::SYS_close_range => descriptors::close_range(a as u32, b as u32, c as c_int).into(),
            libc::SYS_dup2 => descriptors::dup2(fd, b as c_int).into(),
            libc::SYS_dup3 => descriptors::dup3(fd, b as c_int, c as c_int).into(),
            libc::SYS_munmap if is_managed_address(a) => mapping::munmap(memory, b).into(),
            libc::SYS_madvise if is_managed_address(a) => mapping::madvise(memory, b, c as c_int).into(),
            libc::SYS_mprotect if is_managed_address(a) => mapping::mprotect(memory, b, c as c_int).into(),
            _ => return None,
        }
    };
    Some(answer(outcome))
}

fn vectored(manner: Manner, number: c_long, arguments: Arguments) -> c_long {
    let [a, b, c, offset, e, f] = arguments;
    let fd = a as c_int;
    let list = b as *const iovec;
    // The file's position moves by itself.
    let stays = matches!(number, libc::SYS_readv | libc::SYS_writev) || offset == usize::MAX;
    // SAFETY: passed on to the program.
    let moved = unsafe {
        transfer_list(
            manner,
            || Kind::of(fd),
            list,
            c,
            |list, count, at| {
                let offset = if stays { offset } else { offset + at };
                plainly(number, [a, list as usize, count, offset, e, f]) as isize
            },
        )
    };
    answer(moved as i64)
}

fn with_buffers(number: c_long, arguments: Arguments) -> c_long {
    let _pins = buffers::of(number).map(|buffer| match buffer {
        Buffer::None => Pin::new(0, 0),
        // SAFETY: passed on to the program.
        Buffer::Text(n) => unsafe { Pin::string(arguments[n] as *const _) },
        Buffer::Fixed(n, bytes) => Pin::new(arguments[n], bytes),
        Buffer::Counted(n, count, each) => {
            Pin::new(arguments[n], arguments[count].saturating_mul(each).min(buffers::BYTES_MAX))
        }
    });
    answer(plainly(number, arguments))
}
