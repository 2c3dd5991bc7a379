//! Calls whose arguments point to memory: structures and arrays that the kernel reads or fills.

use std::ffi::c_void;

use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, epoll_event, fd_set, id_t, idtype_t, nfds_t, pid_t, pollfd,
    rlimit, rusage, siginfo_t, sockaddr, socklen_t, timespec, timeval, utsname,
};

/// Bytes that the argument of an ioctl refers to: newer requests say it, older ones mean a small structure.
fn control_bytes(request: c_ulong) -> usize {
    const SAID: c_ulong = 0x3fff;
    const SMALL: usize = 64;
    ((request >> 16 & SAID) as usize).max(SMALL)
}

const LIMIT: usize = size_of::<rlimit>();
const STATFS: usize = size_of::<libc::statfs>();

fn fd_set_bytes(count: c_int) -> usize {
    (count.max(0) as usize).div_ceil(64) * 8
}

hook! {
    fn poll(list: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int; list, count as usize * 8;
    fn __poll_chk(list: *mut pollfd, count: nfds_t, timeout: c_int, room: usize) -> c_int; list, count as usize * 8;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
        read, fd_set_bytes(count); write, fd_set_bytes(count); except, fd_set_bytes(count); timeout, 16;
    fn epoll_wait(fd: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
        events, count.max(0) as usize * size_of::<epoll_event>();
    fn epoll_ctl(fd: c_int, what: c_int, other: c_int, event: *mut epoll_event) -> c_int;
        event, size_of::<epoll_event>();
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int; argument, control_bytes(request);
    fn fcntl(fd: c_int, what: c_int, argument: *mut c_void) -> c_int; argument, 64;
    fn fcntl64(fd: c_int, what: c_int, argument: *mut c_void) -> c_int; argument, 64;
    fn fstat(fd: c_int, stat: *mut libc::stat) -> c_int; stat, size_of::<libc::stat>();
    fn fstat64(fd: c_int, stat: *mut libc::stat) -> c_int; stat, size_of::<libc::stat>();
    fn pipe(ends: *mut c_int) -> c_int; ends, 8;
    fn pipe2(ends: *mut c_int, flags: c_int) -> c_int; ends, 8;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int; ends, 8;
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int; address, len;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int; address, len;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int; address, 128; len, 4;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int; address, 128; len, 4;
    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int; address, 128; len, 4;
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int; address, 128; len, 4;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
        value, 256; len, 4;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int; value, len;
    fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int; time, 16; left, 16;
    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int;
        time, 16; left, 16;
    fn wait(status: *mut c_int) -> pid_t; status, 4;
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t; status, 4;
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t; status, 4; usage, size_of::<rusage>();
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
        status, 4; usage, size_of::<rusage>();
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int; info, size_of::<siginfo_t>();
    fn uname(name: *mut utsname) -> c_int; name, size_of::<utsname>();
    fn sysinfo(info: *mut libc::sysinfo) -> c_int; info, size_of::<libc::sysinfo>();
    fn getrusage(who: c_int, usage: *mut rusage) -> c_int; usage, size_of::<rusage>();
    fn getrlimit(what: c_int, limit: *mut rlimit) -> c_int; limit, size_of::<rlimit>();
    fn setrlimit(what: c_int, limit: *const rlimit) -> c_int; limit, size_of::<rlimit>();
    fn sendfile(to: c_int, from: c_int, offset: *mut libc::off_t, bytes: usize) -> isize; offset, 8;
    fn sendfile64(to: c_int, from: c_int, offset: *mut libc::off_t, bytes: usize) -> isize; offset, 8;
    fn copy_file_range(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: c_uint)
        -> isize; from_at, 8; to_at, 8;
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: usize, flags: c_uint) -> isize;
        from_at, 8; to_at, 8;
    fn mincore(address: *mut c_void, bytes: usize, pages: *mut u8) -> c_int; pages, bytes.div_ceil(4096);
    fn sched_getaffinity(pid: pid_t, bytes: usize, set: *mut c_void) -> c_int; set, bytes;
    fn sched_setaffinity(pid: pid_t, bytes: usize, set: *const c_void) -> c_int; set, bytes;
    fn timer_settime(timer: *mut c_void, flags: c_int, value: *const c_void, old: *mut c_void) -> c_int;
        value, 32; old, 32;
    fn setitimer(which: c_int, value: *const c_void, old: *mut c_void) -> c_int; value, 32; old, 32;
    fn timerfd_settime(fd: c_int, flags: c_int, value: *const c_void, old: *mut c_void) -> c_int; value, 32; old, 32;
    fn getgroups(count: c_int, list: *mut c_uint) -> c_int; list, count.max(0) as usize * 4;
    fn setgroups(count: usize, list: *const c_uint) -> c_int; list, count * 4;
    fn times(times: *mut c_void) -> c_long; times, 32;
    fn getrlimit64(what: c_int, limit: *mut rlimit) -> c_int; limit, LIMIT;
    fn setrlimit64(what: c_int, limit: *const rlimit) -> c_int; limit, LIMIT;
    fn prlimit(pid: pid_t, what: c_int, new: *const rlimit, old: *mut rlimit) -> c_int; new, LIMIT; old, LIMIT;
    fn prlimit64(pid: pid_t, what: c_int, new: *const rlimit, old: *mut rlimit) -> c_int; new, LIMIT; old, LIMIT;
    fn clock_gettime(clock: c_int, time: *mut timespec) -> c_int; time, 16;
    fn clock_getres(clock: c_int, time: *mut timespec) -> c_int; time, 16;
    fn clock_settime(clock: c_int, time: *const timespec) -> c_int; time, 16;
    fn timer_create(clock: c_int, event: *mut c_void, timer: *mut *mut c_void) -> c_int; event, 64; timer, 8;
    fn timer_gettime(timer: *mut c_void, value: *mut c_void) -> c_int; value, 32;
    fn timerfd_gettime(fd: c_int, value: *mut c_void) -> c_int; value, 32;
    fn getitimer(which: c_int, value: *mut c_void) -> c_int; value, 32;
    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int; value, 8;
    fn sched_getparam(pid: pid_t, parameters: *mut c_void) -> c_int; parameters, 4;
    fn sched_setparam(pid: pid_t, parameters: *const c_void) -> c_int; parameters, 4;
    fn sched_setscheduler(pid: pid_t, policy: c_int, parameters: *const c_void) -> c_int; parameters, 4;
    fn sched_rr_get_interval(pid: pid_t, time: *mut timespec) -> c_int; time, 16;
    fn pthread_getaffinity_np(thread: c_ulong, bytes: usize, set: *mut c_void) -> c_int; set, bytes;
    fn pthread_setaffinity_np(thread: c_ulong, bytes: usize, set: *const c_void) -> c_int; set, bytes;
    fn getresuid(real: *mut c_uint, effective: *mut c_uint, saved: *mut c_uint) -> c_int;
        real, 4; effective, 4; saved, 4;
    fn getresgid(real: *mut c_uint, effective: *mut c_uint, saved: *mut c_uint) -> c_int;
        real, 4; effective, 4; saved, 4;
    fn fstatfs(fd: c_int, out: *mut c_void) -> c_int; out, STATFS;
    fn fstatfs64(fd: c_int, out: *mut c_void) -> c_int; out, STATFS;
    fn futimens(fd: c_int, times: *const timespec) -> c_int; times, 32;
    fn futimes(fd: c_int, times: *const timeval) -> c_int; times, 32;
    fn mq_send(queue: c_int, message: *const c_char, bytes: usize, priority: c_uint) -> c_int; message, bytes;
    fn mq_receive(queue: c_int, message: *mut c_char, bytes: usize, priority: *mut c_uint) -> isize;
        message, bytes; priority, 4;
    fn msgsnd(queue: c_int, message: *const c_void, bytes: usize, flags: c_int) -> c_int;
        message, bytes.saturating_add(8);
    fn msgrcv(queue: c_int, message: *mut c_void, bytes: usize, kind: c_long, flags: c_int) -> isize;
        message, bytes.saturating_add(8);
    fn semop(set: c_int, operations: *mut c_void, count: usize) -> c_int; operations, count * 6;
    fn semtimedop(set: c_int, operations: *mut c_void, count: usize, time: *const timespec) -> c_int;
        operations, count * 6; time, 16;
    fn __fxstat(version: c_int, fd: c_int, stat: *mut libc::stat) -> c_int; stat, size_of::<libc::stat>();
    fn __fxstat64(version: c_int, fd: c_int, stat: *mut libc::stat) -> c_int; stat, size_of::<libc::stat>();
}
