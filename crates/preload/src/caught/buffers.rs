//! Which arguments of system calls are buffers.

use Buffer::{Counted, Fixed, None, Text};
use libc::c_long;

/// Buffers of one call.
const BUFFERS: usize = 4;
/// The most that is brought in for a buffer whose size the program has said.
pub const BYTES_MAX: usize = 1 << 20;

/// The first number is that of the argument that has the address.
#[derive(Clone, Copy)]
pub enum Buffer {
    /// No buffer.
    None,
    /// A string that ends with a zero byte.
    Text(usize),
    /// The argument with the address, and the bytes of the buffer.
    Fixed(usize, usize),
    /// The arguments with the address and with the number of elements, and the bytes of an element.
    Counted(usize, usize, usize),
}

const STAT: usize = size_of::<libc::stat>();
const STATFS: usize = size_of::<libc::statfs>();
const TIME: usize = size_of::<libc::timespec>();
const USAGE: usize = size_of::<libc::rusage>();
const INFO: usize = size_of::<libc::siginfo_t>();
const EVENT: usize = size_of::<libc::epoll_event>();
const SET: usize = size_of::<libc::fd_set>();
/// The longest address of a socket.
pub const ADDRESS: usize = 128;
const MASK: usize = 8;

/// Those of a call.
#[rustfmt::skip]
pub fn of(number: c_long) -> [Buffer; BUFFERS] {
    match number {
        libc::SYS_open | libc::SYS_creat | libc::SYS_access | libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_chdir
        | libc::SYS_chmod | libc::SYS_chown | libc::SYS_lchown | libc::SYS_truncate | libc::SYS_mknod | libc::SYS_memfd_create
        | libc::SYS_chroot => [Text(0), None, None, None],
        libc::SYS_openat | libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_fchmodat | libc::SYS_fchownat
        | libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_inotify_add_watch => [Text(1), None, None, None],
        libc::SYS_openat2 => [Text(1), Counted(2, 3, 1), None, None],
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => [Text(0), Text(1), None, None],
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => [Text(1), Text(3), None, None],
        libc::SYS_symlinkat => [Text(0), Text(2), None, None],
        libc::SYS_readlink => [Text(0), Counted(1, 2, 1), None, None],
        libc::SYS_readlinkat => [Text(1), Counted(2, 3, 1), None, None],
        libc::SYS_getcwd => [Counted(0, 1, 1), None, None, None],
        libc::SYS_stat | libc::SYS_lstat => [Text(0), Fixed(1, STAT), None, None],
        libc::SYS_newfstatat => [Text(1), Fixed(2, STAT), None, None],
        libc::SYS_fstat => [Fixed(1, STAT), None, None, None],
        libc::SYS_statx => [Text(1), Fixed(4, size_of::<libc::statx>()), None, None],
        libc::SYS_statfs => [Text(0), Fixed(1, STATFS), None, None],
        libc::SYS_fstatfs => [Fixed(1, STATFS), None, None, None],
        libc::SYS_utimensat => [Text(1), Fixed(2, 2 * TIME), None, None],
        libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_setxattr | libc::SYS_lsetxattr => [Text(0), Text(1), Counted(2, 3, 1), None],
        libc::SYS_fgetxattr | libc::SYS_fsetxattr => [Text(1), Counted(2, 3, 1), None, None],
        libc::SYS_listxattr | libc::SYS_llistxattr => [Text(0), Counted(1, 2, 1), None, None],
        libc::SYS_flistxattr => [Counted(1, 2, 1), None, None, None],
        libc::SYS_sendfile => [Fixed(2, 8), None, None, None],
        libc::SYS_splice | libc::SYS_copy_file_range => [Fixed(1, 8), Fixed(3, 8), None, None],
        libc::SYS_pipe | libc::SYS_pipe2 => [Fixed(0, 8), None, None, None],
        libc::SYS_bind | libc::SYS_connect => [Counted(1, 2, 1), None, None, None],
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername =>
            [Fixed(1, ADDRESS), Fixed(2, 4), None, None],
        libc::SYS_getsockopt => [Fixed(3, 256), Fixed(4, 4), None, None],
        libc::SYS_setsockopt => [Counted(3, 4, 1), None, None, None],
        libc::SYS_socketpair => [Fixed(3, 8), None, None, None],
        libc::SYS_poll => [Counted(0, 1, 8), None, None, None],
        libc::SYS_ppoll => [Counted(0, 1, 8), Fixed(2, TIME), Fixed(3, MASK), None],
        libc::SYS_select => [Fixed(1, SET), Fixed(2, SET), Fixed(3, SET), Fixed(4, TIME)],
        libc::SYS_pselect6 => [Fixed(1, SET), Fixed(2, SET), Fixed(3, SET), Fixed(4, TIME)],
        libc::SYS_epoll_wait => [Counted(1, 2, EVENT), None, None, None],
        libc::SYS_epoll_pwait => [Counted(1, 2, EVENT), Fixed(4, MASK), None, None],
        libc::SYS_epoll_pwait2 => [Counted(1, 2, EVENT), Fixed(3, TIME), Fixed(4, MASK), None],
        libc::SYS_epoll_ctl => [Fixed(3, EVENT), None, None, None],
        libc::SYS_clock_gettime | libc::SYS_clock_getres | libc::SYS_clock_settime => [Fixed(1, TIME), None, None, None],
        libc::SYS_gettimeofday | libc::SYS_nanosleep => [Fixed(0, TIME), Fixed(1, TIME), None, None],
        libc::SYS_clock_nanosleep => [Fixed(2, TIME), Fixed(3, TIME), None, None],
        libc::SYS_timerfd_settime | libc::SYS_timer_settime => [Fixed(2, 2 * TIME), Fixed(3, 2 * TIME), None, None],
        libc::SYS_timerfd_gettime | libc::SYS_timer_gettime => [Fixed(1, 2 * TIME), None, None, None],
        libc::SYS_wait4 => [Fixed(1, 4), Fixed(3, USAGE), None, None],
        libc::SYS_waitid => [Fixed(2, INFO), Fixed(4, USAGE), None, None],
        libc::SYS_rt_sigaction => [Fixed(1, 32), Fixed(2, 32), None, None],
        libc::SYS_rt_sigtimedwait => [Fixed(0, MASK), Fixed(1, INFO), Fixed(2, TIME), None],
        libc::SYS_uname => [Fixed(0, size_of::<libc::utsname>()), None, None, None],
        libc::SYS_sysinfo => [Fixed(0, size_of::<libc::sysinfo>()), None, None, None],
        libc::SYS_getrusage => [Fixed(1, USAGE), None, None, None],
        libc::SYS_getrlimit | libc::SYS_setrlimit => [Fixed(1, 16), None, None, None],
        libc::SYS_prlimit64 => [Fixed(2, 16), Fixed(3, 16), None, None],
        libc::SYS_times => [Fixed(0, 32), None, None, None],
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => [Counted(2, 1, 1), None, None, None],
        _ => [None, None, None, None],
    }
}
