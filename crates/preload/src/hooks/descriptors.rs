//! What a program does to all descriptors, or to numbers that it believes free, must spare those of the heap.

use libc::{FILE, c_int, c_uint};

use aquifer_sys::descriptors::{is_own, next_own};
use aquifer_sys::stderr;

use crate::hooks::missing;
use crate::real::real;
use crate::route::set_errno;

/// Calls `close` for each run of descriptors between `first` and `last` that are not the heap's; the first error.
fn for_each_piece(first: c_uint, last: c_uint, mut close: impl FnMut(c_uint, c_uint) -> c_int) -> c_int {
    let (mut at, mut outcome) = (first, 0);
    while at <= last {
        let own = next_own(at).filter(|&own| own <= last);
        let end = own.map_or(last, |own| own.wrapping_sub(1));
        if own != Some(at) && outcome == 0 {
            outcome = close(at, end);
        }
        match own.and_then(|own| own.checked_add(1)) {
            Some(next) => at = next,
            None => break,
        }
    }
    outcome
}

/// # Safety
/// As the manual page of `close` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if is_own(fd) {
        set_errno(libc::EBADF);
        return -1;
    }
    match real!(close: unsafe extern "C" fn(c_int) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(fd) },
        None => missing(),
    }
}

/// Most commands close standard error as they end, before this library does.
///
/// # Safety
/// As the manual page of `fclose` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: the caller gives a stream.
    if !stream.is_null() && unsafe { libc::fileno(stream) } == libc::STDERR_FILENO {
        crate::report::keep_stderr();
    }
    match real!(fclose: unsafe extern "C" fn(*mut FILE) -> c_int) {
        // SAFETY: passed on to the caller.
        Some(real) => unsafe { real(stream) },
        None => missing(),
    }
}

/// # Safety
/// As the manual page of `close_range` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let Some(real) = real!(close_range: unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int) else {
        return missing();
    };
    if first > last {
        // SAFETY: passed on to the caller; it is refused.
        return unsafe { real(first, last, flags) };
    }
    // SAFETY: passed on to the caller.
    for_each_piece(first, last, |first, last| unsafe { real(first, last, flags) })
}

/// # Safety
/// As the manual page of `closefrom` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: passed on to the caller.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// Gives a descriptor a number, which must not be one of the heap's.
macro_rules! dup {
    ($(fn $name:ident($($more:ident: $type:ty)?);)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, number: c_int $(, $more: $type)?) -> c_int {
            if is_own(number) {
                set_errno(libc::EBUSY);
                return -1;
            }
            let outcome = match real!($name: unsafe extern "C" fn(c_int, c_int $(, $type)?) -> c_int) {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real(fd, number $(, $more)?) },
                None => missing(),
            };
            // The program says what its standard error is from now on.
            if outcome == libc::STDERR_FILENO {
                stderr::note_change();
            }
            outcome
        }
    )*};
}

dup! {
    fn dup2();
    fn dup3(flags: c_int);
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_sys::descriptors::{forget, note};

    #[test]
    fn what_is_closed_spares_our_own() {
        let own = [50_000, 50_001, 50_005];
        own.into_iter().for_each(note);
        let pieces = |first, last| {
            let mut pieces = Vec::new();
            for_each_piece(first, last, |first, last| {
                pieces.push((first, last));
                0
            });
            pieces
        };
        assert_eq!(pieces(49_000, 51_000), [(49_000, 49_999), (50_002, 50_004), (50_006, 51_000)]);
        assert_eq!(pieces(50_000, 50_001), []);
        assert_eq!(pieces(50_005, 50_006), [(50_006, 50_006)]);
        assert_eq!(pieces(50_002, 50_003), [(50_002, 50_003)]);
        own.into_iter().for_each(forget);
        assert_eq!(pieces(49_000, u32::MAX), [(49_000, u32::MAX)]);
    }
}
