//! Calls that are refused, as if the kernel had none: io_uring and the kernel's aio. What they are handed goes through memory that the program shares
//! with the kernel, and is not seen. Programs have another way, as containers refuse these too.

use std::ffi::c_void;

use libc::{c_int, c_long, c_uint};

use crate::real::real;
use crate::route::{route, say};

/// Whether the kernel would be handed memory that it cannot use; says so once.
fn is_refused(what: &str) -> bool {
    let is_refused = route().is_some_and(|route| !route.settings.kernel_waits);
    if is_refused {
        say(&format!(
            "{what} is refused, as where the kernel has none: it would use memory that may not be in RAM; `aquifer run --faults thread` serves it"
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
                None => match real!(elsewhere $name: unsafe extern "C" fn($($type),*) -> c_int) {
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
