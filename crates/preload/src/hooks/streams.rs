//! What the C library reads and writes for a stream. It calls the kernel itself, with the stream's buffer or with the program's memory, whichever function the
//! program has called: fread, printf, getline, fclose, exit. But it finds the two functions that do so in tables, which belong to every
//! stream and have had this form since they were C++'s; so these stand there in their place.
//!
//! The tables are in the part of the C library's data that is read-only once it is loaded.

use std::ffi::c_void;

use aquifer_base::limits::OS_PAGE_BYTES as PAGE;
use libc::{FILE, c_int, dl_phdr_info};

use crate::parts::PART_BYTES;
use crate::place::{Place, Way};
use crate::real::{find, real};
use crate::route::is_managed_address;

type Transfer = unsafe extern "C" fn(*mut FILE, *mut u8, isize) -> isize;

/// As the C library's: waits for some bytes, and returns how many there are.
unsafe extern "C" fn read(stream: *mut FILE, buffer: *mut u8, bytes: isize) -> isize {
    let Some(real) = real!(_IO_file_read: Transfer) else { return -1 };
    if !is_managed_address(buffer.addr()) || bytes <= 0 {
        // SAFETY: passed on to the C library.
        return unsafe { real(stream, buffer, bytes) };
    }
    let mut place = Place::new(Way::In, buffer.addr(), PART_BYTES.min(bytes as usize));
    // SAFETY: the place has room for `PART_BYTES` or `bytes`, the smaller of the two.
    let moved = unsafe { real(stream, place.address(), bytes.min(PART_BYTES as isize)) };
    place.arrived(moved.max(0) as usize);
    moved
}

/// As the C library's: returns how many bytes are written, all of them unless there was an error.
unsafe extern "C" fn write(stream: *mut FILE, buffer: *mut u8, bytes: isize) -> isize {
    let Some(real) = real!(_IO_file_write: Transfer) else { return 0 };
    if !is_managed_address(buffer.addr()) || bytes <= 0 {
        // SAFETY: passed on to the C library.
        return unsafe { real(stream, buffer, bytes) };
    }
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(PART_BYTES as isize);
        let mut place = Place::new(Way::Out, buffer.addr() + done as usize, part as usize);
        // SAFETY: the place holds `part` bytes.
        let moved = unsafe { real(stream, place.address(), part) };
        done += moved.max(0);
        if moved < part {
            break;
        }
    }
    done
}

/// The read-only data of the module that holds an address.
struct ReadOnly {
    holds: usize,
    start: usize,
    end: usize,
}

/// Before the program begins. Whether the tables were found.
pub fn begin() -> bool {
    let table = find(c"_IO_file_jumps").addr();
    let ours: [(usize, usize); 2] = [
        (find(c"_IO_file_read").addr(), (read as Transfer) as usize),
        (find(c"_IO_file_write").addr(), (write as Transfer) as usize),
    ];
    if table == 0 || ours.iter().any(|(theirs, _)| *theirs == 0) {
        return false;
    }
    let mut data = ReadOnly { holds: table, start: 0, end: 0 };
    // SAFETY: the function takes what it is given.
    unsafe { libc::dl_iterate_phdr(Some(find_read_only), (&raw mut data).cast()) };
    let mut replaced = 0;
    for address in (data.start..data.end).step_by(size_of::<usize>()) {
        let word = address as *mut usize;
        // SAFETY: it is the C library's.
        let found = unsafe { word.read() };
        if let Some((_, own)) = ours.iter().find(|(theirs, _)| *theirs == found) {
            replaced += usize::from(replace(word, *own));
        }
    }
    replaced >= ours.len()
}

/// Looks at one module.
unsafe extern "C" fn find_read_only(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: both are as the dynamic linker and `begin` say.
    let (info, data) = unsafe { (&*info, &mut *data.cast::<ReadOnly>()) };
    // SAFETY: the linker has read these headers itself.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO) {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        let end = start + header.p_memsz as usize;
        if (start..end).contains(&data.holds) {
            // Of a page that it shares with data that is written, nothing is read-only.
            (data.start, data.end) = (start.next_multiple_of(size_of::<usize>()), end & !(PAGE - 1));
            return 1;
        }
    }
    0
}

/// Writes a word that cannot be written; returns whether it could.
fn replace(word: *mut usize, value: usize) -> bool {
    let page = (word.addr() & !(PAGE - 1)) as *mut c_void;
    // SAFETY: a thread that reads the word meanwhile finds the one or the other function; the page stays as
    // it was.
    unsafe {
        if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        word.write_volatile(value);
        libc::mprotect(page, PAGE, libc::PROT_READ) == 0
    }
}
