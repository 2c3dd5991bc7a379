//! Calls that threads wait in by instructions of their own at the moment in which the memory becomes a heap's. Nobody was told of their buffers;
//! but the kernel says in `/proc` which call a thread waits in.

use std::io::Write;

use libc::{c_long, iovec, mmsghdr, msghdr};

use super::buffers::{self, ADDRESS, BYTES_MAX, Buffer};
use super::dispatch::is_not_caught;
use crate::hooks::raw::direct;
use crate::proc::{self, Opened};

type Visit<'a> = &'a mut dyn FnMut(usize, usize);

/// Elements of a list that the kernel takes at most.
const ELEMENTS_MAX: usize = 1024;

/// Calls `visit` with address and length of each buffer that a call of another thread may still use. Buffers
/// of the C library's functions are announced already, by the functions of this library in front of them.
///
/// It allocates nothing: it runs while another thread may hold the locks of the program's malloc.
pub fn for_each(visit: Visit<'_>) {
    proc::for_each_number(c"/proc/self/task", |_, thread| of_thread(thread, visit));
}

fn of_thread(thread: &[u8], visit: Visit<'_>) {
    let mut path = [0; 64];
    let mut rest = &mut path[..];
    let parts: [&[u8]; 3] = [b"/proc/self/task/", thread, b"/syscall\0"];
    if parts.iter().any(|part| rest.write_all(part).is_err()) {
        return;
    }
    let mut line = [0; 256];
    let count = Opened::new(&path).map_or(0, |file| file.read(libc::SYS_read, &mut line));
    let call = std::str::from_utf8(&line[..count]).ok().and_then(of_own_instruction);
    if let Some((number, arguments)) = call {
        visit_buffers(number, arguments, visit);
    }
}

/// Number and arguments of a call from outside of the C library. The line has them, the stack and the next instruction; of a thread that does not
/// wait it has one word.
fn of_own_instruction(line: &str) -> Option<(c_long, [usize; 6])> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut registers = [0; 8];
    for register in &mut registers {
        *register = usize::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    let [a, b, c, d, e, f, _, next] = registers;
    (!is_not_caught(next)).then_some((number, [a, b, c, d, e, f]))
}

/// What stands at an address of the program's, if it has memory there now.
fn copy_of<T: Copy>(address: usize) -> Option<T> {
    let mut copy = std::mem::MaybeUninit::<T>::uninit();
    let to = iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: size_of::<T>() };
    let from = iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: size_of::<T>() };
    // The function of that name brings pages in; this is the plain call.
    let (own, to, from) = (std::process::id() as usize, &raw const to as usize, &raw const from as usize);
    // SAFETY: the kernel checks the source, and there is room for it here.
    let copied = unsafe { direct(libc::SYS_process_vm_readv, own, to, 1, from, 1, 0) };
    // SAFETY: plain numbers and addresses, all of which were copied.
    (copied == size_of::<T>() as c_long).then(|| unsafe { copy.assume_init() })
}

fn visit_list(list: usize, count: usize, visit: Visit<'_>) {
    for n in 0..count.min(ELEMENTS_MAX) {
        let Some(part) = copy_of::<iovec>(list + n * size_of::<iovec>()) else { return };
        visit(part.iov_base.addr(), part.iov_len.min(BYTES_MAX));
    }
}

fn visit_message(at: usize, visit: Visit<'_>) {
    let Some(message) = copy_of::<msghdr>(at) else { return };
    visit(at, size_of::<msghdr>());
    visit(message.msg_name.addr(), message.msg_namelen as usize);
    visit(message.msg_control.addr(), message.msg_controllen.min(BYTES_MAX));
    visit_list(message.msg_iov.addr(), message.msg_iovlen, visit);
}

fn visit_buffers(number: c_long, arguments: [usize; 6], visit: Visit<'_>) {
    let [a, b, c, _, e, f] = arguments;
    match number {
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_getdents64
        | libc::SYS_sendto => visit(b, c.min(BYTES_MAX)),
        libc::SYS_getrandom => visit(a, b.min(BYTES_MAX)),
        libc::SYS_recvfrom => {
            visit(b, c.min(BYTES_MAX));
            visit(e, ADDRESS);
            visit(f, 4);
        }
        libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2 => visit_list(b, c, visit),
        libc::SYS_recvmsg | libc::SYS_sendmsg => visit_message(b, visit),
        libc::SYS_recvmmsg | libc::SYS_sendmmsg => {
            for n in 0..c.min(ELEMENTS_MAX) {
                // Its length is written, too.
                visit(b + n * size_of::<mmsghdr>(), size_of::<mmsghdr>());
                visit_message(b + n * size_of::<mmsghdr>(), visit);
            }
        }
        libc::SYS_futex => visit(a, 4),
        _ => buffers::of(number).into_iter().for_each(|buffer| match buffer {
            // The kernel copies names when it begins.
            Buffer::None | Buffer::Text(_) => {}
            Buffer::Fixed(n, bytes) => visit(arguments[n], bytes),
            Buffer::Counted(n, count, each) => {
                visit(arguments[n], arguments[count].saturating_mul(each).min(BYTES_MAX))
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_run_are_in_no_call() {
        assert_eq!(of_own_instruction("running\n"), None);
        assert_eq!(of_own_instruction("-1 0x7ffd0010 0x7f4a2210\n"), None);
        assert_eq!(of_own_instruction("0 0x3 0x55\n"), None);
        let line = "0 0x3 0x7f001000 0x400 0x0 0x0 0x0 0x7ffd0010 0x7f4a2210\n";
        assert_eq!(of_own_instruction(line), Some((0, [3, 0x7f00_1000, 0x400, 0, 0, 0])));
    }

    #[test]
    fn all_threads_are_looked_at() {
        let (tell, told) = std::sync::mpsc::channel();
        let (mut ends, mut buffer) = ([0; 2], [0u8; 100]);
        // SAFETY: there is room for two.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(buffer.as_ptr().addr()).unwrap();
                // SAFETY: the buffer has room for 100 bytes.
                unsafe {
                    std::arch::asm!("syscall", inout("rax") libc::SYS_read => _, in("rdi") ends[0],
                        in("rsi") buffer.as_mut_ptr(), in("rdx") 100, out("rcx") _, out("r11") _);
                }
            });
            let wanted = (told.recv().unwrap(), 100);
            // No range is the C library's here.
            let mut is_found = false;
            for _ in 0..10_000 {
                for_each(&mut |address, bytes| is_found |= (address, bytes) == wanted);
                if is_found {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // SAFETY: one byte.
            assert_eq!(unsafe { libc::write(ends[1], b"x".as_ptr().cast(), 1) }, 1);
            assert!(is_found);
        });
    }

    #[test]
    fn buffers_of_messages_are_found() {
        let (mut first, mut second, mut name) = ([0u8; 10], [0u8; 20], [0u8; 30]);
        let mut list = [
            iovec { iov_base: first.as_mut_ptr().cast(), iov_len: 10 },
            iovec { iov_base: second.as_mut_ptr().cast(), iov_len: 20 },
        ];
        // SAFETY: zeros are a message of nothing.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = 30;
        message.msg_iov = list.as_mut_ptr();
        message.msg_iovlen = 2;
        let at = (&raw const message).expose_provenance();
        list.iter().for_each(|part| {
            part.iov_base.expose_provenance();
        });
        message.msg_iov.expose_provenance();
        let mut found = Vec::new();
        visit_buffers(libc::SYS_recvmsg, [0, at, 0, 0, 0, 0], &mut |address, bytes| {
            found.push((address, bytes))
        });
        found.retain(|(_, bytes)| *bytes > 0);
        let address = |bytes: &[u8]| bytes.as_ptr().addr();
        let wanted =
            [(at, size_of::<msghdr>()), (address(&name), 30), (address(&first), 10), (address(&second), 20)];
        assert_eq!(found, wanted);
        assert_eq!(copy_of::<iovec>(8).map(|part| part.iov_len), None);
    }
}
