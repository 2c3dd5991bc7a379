//! What the kernel knows about this process and its machine.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use crate::errno::Errno;
use crate::kept_file::KeptFile;

const STATUS: &CStr = c"/proc/self/status";

/// The kernel's id of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: the call takes no argument and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    id as u32
}

/// The kernel's id of the process.
///
/// # Context
/// Signal-safe.
pub fn id() -> u32 {
    // SAFETY: the call takes no argument and cannot fail.
    let id = unsafe { libc::getpid() };
    id as u32
}

/// Whether a thread of this process sleeps on a word of memory now, such as a lock; false if `/proc` does not tell.
///
/// # Context
/// Reads a file of the kernel; signal-safe.
pub fn waits_for_a_word(thread: u32) -> bool {
    const BEFORE: &[u8] = b"/proc/self/task/";
    const BEHIND: &[u8] = b"/syscall\0";
    let (mut path, mut len) = ([0u8; 48], 0);
    for part in [BEFORE, digits(u64::from(thread), 10, &mut [0; 20]), BEHIND] {
        path[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    let path = CStr::from_bytes_until_nul(&path).expect("it ends with a zero byte");
    let Some(fd) = open_to_read(path) else { return false };
    let mut text = [0u8; 16];
    let filled = read_to_end(fd, &mut text);
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    let number = text[..filled].split(|&c| c == b' ').next().unwrap_or(b"");
    let value = number.iter().try_fold(0i64, |n, &c| Some(n * 10 + i64::from((c as char).to_digit(10)?)));
    !number.is_empty() && value == Some(libc::SYS_futex)
}

/// A number as text, to a base of at most 16. Signal-safe.
pub fn digits(mut number: u64, base: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
        if number == 0 {
            return &room[at..];
        }
    }
}

/// The kernel's monotonic clock, in nanoseconds. Signal-safe.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Processor time of all threads of this process so far, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut spent) };
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// Reads the supplementary groups of the peer of a connected Unix socket, and returns how many there are.
/// Groups beyond the length of `groups` are left out.
///
/// # Errors
/// The kernel's: `ENOTSOCK`, for example.
pub fn peer_groups(socket: core::ffi::c_int, groups: &mut [u32]) -> crate::Result<usize> {
    let mut len = size_of_val(groups) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERGROUPS);
    // SAFETY: the kernel writes at most as many bytes as the length says.
    let returned = unsafe { libc::getsockopt(socket, level, option, groups.as_mut_ptr().cast(), &mut len) };
    match Errno::check(i64::from(returned)) {
        Ok(_) => Ok(len as usize / size_of::<u32>()),
        // The length says how many there are.
        Err(Errno(libc::ERANGE)) => Ok(len as usize / size_of::<u32>()),
        Err(error) => Err(error),
    }
}

/// The processor the calling thread runs on now; 0 where the kernel does not say.
pub fn cpu() -> usize {
    // SAFETY: the call takes no argument.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Major and minor version of the running kernel, as (6, 8); (0, 0) if it does not tell.
pub fn kernel_version() -> (u32, u32) {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: `names` is a writable utsname.
    unsafe { libc::uname(names.as_mut_ptr()) };
    // SAFETY: every field is an array of bytes, for which the zeros above are valid.
    let release = unsafe { names.assume_init() }.release;
    version_from_release(release.iter().map(|&c| c as u8))
}

fn version_from_release(mut release: impl Iterator<Item = u8>) -> (u32, u32) {
    let mut number = || {
        release.by_ref().map_while(|c| (c as char).to_digit(10)).fold(0u32, |n, d| n.saturating_mul(10) + d)
    };
    (number(), number())
}

/// Bytes of RAM in this machine (the whole, not the free part; a cgroup limit does not show here).
pub fn machine_ram_bytes() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: `info` is a writable sysinfo.
    unsafe { libc::sysinfo(info.as_mut_ptr()) };
    // SAFETY: the structure has only integers, for which the zeros above are valid.
    let info = unsafe { info.assume_init() };
    // The field's width differs between machines.
    #[allow(clippy::useless_conversion)]
    let units = u64::from(info.totalram);
    units.saturating_mul(u64::from(info.mem_unit))
}

/// RAM that this process uses, as the kernel counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident pages (`VmRSS`), bytes.
    pub rss_bytes: u64,
    /// The most there ever were (`VmHWM`), bytes.
    pub rss_bytes_max: u64,
    /// Those of them that are no pages of files and shared with nobody by a mapping (`RssAnon`), bytes.
    pub anonymous_bytes: u64,
    /// Those of them that are pages of files (`RssFile`), bytes: mostly code, which the page cache holds anyway.
    pub file_bytes: u64,
    /// The process's page tables (`VmPTE`), bytes; not part of the resident pages.
    pub page_table_bytes: u64,
}

/// The memory this process uses now, or `None` if `/proc` is missing or `buf` too small for
/// its answer (2 KiB are plenty).
///
/// # Context
/// Reads a file of the kernel; signal-safe.
pub fn memory_of_self(buf: &mut [u8]) -> Option<MemoryUse> {
    parse_status(read_file(STATUS, buf)?)
}

/// What [`memory_of_self`] reads, to be read often: a child of this process that has it, too, reads of its parent.
pub fn keep_memory_of_self() -> Option<KeptFile> {
    KeptFile::open(STATUS)
}

/// As [`memory_of_self`], from a file of [`keep_memory_of_self`].
pub fn memory_by(file: &KeptFile, buf: &mut [u8]) -> Option<MemoryUse> {
    parse_status(file.read(buf))
}

/// Mappings that the kernel gives a process (`vm.max_map_count`); the kernel's own default if it does not tell.
pub fn mappings_max() -> usize {
    const DEFAULT: usize = 65530;
    let mut text = [0; 24];
    let Some(text) = read_file(c"/proc/sys/vm/max_map_count", &mut text) else { return DEFAULT };
    let digits = text.iter().map_while(|&c| (c as char).to_digit(10));
    match digits.fold(0usize, |n, d| n.saturating_mul(10).saturating_add(d as usize)) {
        0 => DEFAULT,
        most => most,
    }
}

/// Bytes of address space that this process may still reserve under its limit (`RLIMIT_AS`); `None` without one.
///
/// # Context
/// Reads a file of the kernel; signal-safe.
pub fn address_space_left() -> Option<u64> {
    let limit = limit(libc::RLIMIT_AS)?;
    let mut text = [0; 2048];
    let used = read_file(STATUS, &mut text).and_then(|text| field_bytes(text, b"VmSize:"));
    Some(limit.saturating_sub(used.unwrap_or(0)))
}

/// Bytes that a file which this process makes may have (`RLIMIT_FSIZE`); `None` without a limit. Signal-safe.
pub fn file_bytes_max() -> Option<u64> {
    limit(libc::RLIMIT_FSIZE)
}

/// Numbers of descriptors that this process may have (`RLIMIT_NOFILE`); `None` without a limit. Signal-safe.
pub fn descriptors_max() -> Option<u64> {
    limit(libc::RLIMIT_NOFILE)
}

/// A limit of this process, `None` if there is none.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let none = core::ptr::null::<libc::rlimit>();
    // SAFETY: the kernel fills in the structure. The system call itself: a program's own function may be one that asks us.
    unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, none, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The beginning of a file, as far as there is room for it; `None` if it cannot be opened. Signal-safe.
pub fn read_file<'a>(path: &CStr, buf: &'a mut [u8]) -> Option<&'a [u8]> {
    let fd = open_to_read(path)?;
    let filled = read_to_end(fd, buf);
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    Some(&buf[..filled])
}

/// Opens a file; a thread is not cancelled meanwhile, as it would be in the C library's function.
pub(crate) fn open_to_read(path: &CStr) -> Option<libc::c_int> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    libc::c_int::try_from(fd).ok().filter(|fd| *fd >= 0)
}

/// Reads a file from its beginning until `buf` is full or it ends; returns the bytes read.
pub(crate) fn read_to_end(fd: libc::c_int, buf: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < buf.len() {
        let rest = &mut buf[filled..];
        let (start, len) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: the kernel writes at most `len` bytes to `rest`.
        let returned = unsafe { libc::syscall(libc::SYS_pread64, fd, start, len, filled as i64) };
        match Errno::check(returned) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    filled
}

fn parse_status(text: &[u8]) -> Option<MemoryUse> {
    Some(MemoryUse {
        rss_bytes: field_bytes(text, b"VmRSS:")?,
        rss_bytes_max: field_bytes(text, b"VmHWM:")?,
        anonymous_bytes: field_bytes(text, b"RssAnon:")?,
        file_bytes: field_bytes(text, b"RssFile:")?,
        page_table_bytes: field_bytes(text, b"VmPTE:")?,
    })
}

/// The value of one line of the form `name  123 kB`; a line cut off by the buffer's end is no line.
fn field_bytes(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split_inclusive(|&c| c == b'\n').find(|line| line.starts_with(name))?;
    let value = line[name.len()..].strip_suffix(b"\n")?;
    let digits = value.trim_ascii().strip_suffix(b" kB")?;
    let kib = digits.iter().try_fold(0u64, |n, &c| Some(n * 10 + u64::from((c as char).to_digit(10)?)))?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_status_of_this_process() {
        let used = memory_of_self(&mut [0; 4096]).expect("/proc is mounted");
        assert!(
            used.rss_bytes > 0
                && used.rss_bytes <= used.rss_bytes_max
                && used.rss_bytes < machine_ram_bytes()
        );
        assert!(used.page_table_bytes > 0 && used.file_bytes < used.rss_bytes);
        assert_eq!(memory_of_self(&mut [0; 16]), None);
    }

    #[test]
    fn shared_memory_is_not_anonymous() {
        const BYTES: usize = 32 << 20;
        let anonymous = || memory_of_self(&mut [0; 4096]).expect("/proc is mounted").anonymous_bytes;
        let before = anonymous();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of this test alone.
        let shared = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
        assert_ne!(shared, libc::MAP_FAILED);
        // SAFETY: it has that many bytes; then nobody uses it any more.
        unsafe {
            std::ptr::write_bytes(shared.cast::<u8>(), 1, BYTES);
            assert!(anonymous() < before + (BYTES / 2) as u64);
            libc::munmap(shared, BYTES);
        }
    }

    #[test]
    fn numbers_are_written_without_allocating() {
        for number in [0, 7, 10, 123_456_789, u64::MAX] {
            assert_eq!(digits(number, 10, &mut [0; 20]), number.to_string().as_bytes());
            assert_eq!(digits(number, 16, &mut [0; 20]), format!("{number:x}").as_bytes());
        }
    }

    #[test]
    fn parses_whole_lines_only() {
        let text = b"Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t    1000 kB\nRssFile:\t     16 kB\nVmPTE:\t      12 kB\n";
        let expected = MemoryUse {
            rss_bytes: 1 << 20,
            rss_bytes_max: 2 << 20,
            anonymous_bytes: 1000 << 10,
            file_bytes: 16 << 10,
            page_table_bytes: 12 << 10,
        };
        assert_eq!(parse_status(text), Some(expected));
        assert_eq!(parse_status(&text[..text.len() - 1]), None);
        assert_eq!(parse_status(b"VmRSS:\t many kB\nVmPTE:\t1 kB\n"), None);
    }

    #[test]
    fn knows_the_kernel() {
        assert_eq!(version_from_release(b"6.18.44-fc\0".iter().copied()), (6, 18));
        assert_eq!(version_from_release(b"10.0-rc1".iter().copied()), (10, 0));
        assert!(kernel_version() >= (3, 0), "{:?}", kernel_version());
    }

    #[test]
    fn knows_what_its_limit_on_address_space_leaves() {
        let status = crate::testing::in_child(|| {
            let limit = libc::rlimit { rlim_cur: 64 << 30, rlim_max: 64 << 30 };
            // SAFETY: plain numbers; the child ends soon.
            if unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } != 0 {
                return 1;
            }
            i32::from(!address_space_left().is_some_and(|left| (1 << 30..64 << 30).contains(&left)))
        });
        assert!(crate::testing::ended_well(status), "{status:#x}");
    }

    #[test]
    fn knows_how_many_mappings_there_may_be() {
        let told = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("proc");
        assert_eq!(mappings_max().to_string(), told.trim());
    }

    #[test]
    fn knows_the_thread() {
        let other = std::thread::spawn(thread_id).join().expect("no panic");
        assert_ne!(thread_id(), other);
        assert!(cpu() < 1 << 20);
    }
}
