//! The functions that stand in front of others, by what they are about.
//!
//! | file | functions |
//! |---|---|
//! | `blocks` | malloc and its family |
//! | `descriptors` | close and its family, which must spare those of the heap |
//! | `mapping` | mmap and its family |
//! | `transfer` | reads and writes |
//! | `messages` | what goes through sockets |
//! | `arguments` | calls whose arguments point to memory |
//! | `paths` | calls that name files |
//! | `streams` | what the C library reads and writes for a stream |
//! | `signals` | handlers and masks, which must leave SIGBUS to the heap |
//! | `old_signals` | the same by older functions |
//! | `alternate` | stacks for handlers |
//! | `process` | new programs and processes |
//! | `later` | calls that hand memory over for later |
//! | `lists` | those of them that have arguments one by one |
//! | `lookup` | functions that a program looks up by name |
//! | `raw` | system calls that a program makes by their numbers |
//! | `refused` | io_uring and the kernel's aio |
//! | `waiting` | locks on which the kernel lets threads wait |

/// Stands in front of a function: the pages that its arguments point to are in place while the real one runs.
///
/// `hook!(fn name(argument: type, ...) -> type; address, bytes; ...)`
macro_rules! hook {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $(; $address:expr, $bytes:expr)*;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $(let _pin = $crate::span::Pin::new($address as usize, $bytes as usize);)*
            let real = $crate::real::real!($name: unsafe extern "C" fn($($type),*) -> $result);
            match real {
                // SAFETY: passed on to the caller.
                Some(real) => unsafe { real($($argument),*) },
                None => $crate::hooks::missing(),
            }
        }
    )*};
}
/// The answer of a function that the C library does not have.
pub(crate) trait Missing {
    fn missing() -> Self;
}

macro_rules! missing {
    ($($type:ty = $value:expr),*) => {$(
        impl Missing for $type {
            fn missing() -> Self {
                $value
            }
        }
    )*};
}

missing!(i32 = -1, isize = -1, i64 = -1, u32 = u32::MAX, u64 = 0, usize = 0, () = ());

impl<T> Missing for *mut T {
    fn missing() -> Self {
        std::ptr::null_mut()
    }
}

#[cold]
pub(crate) fn missing<T: Missing>() -> T {
    crate::route::set_errno(libc::ENOSYS);
    T::missing()
}

mod alternate;
pub mod arguments;
mod blocks;
pub mod descriptors;
pub mod later;
mod lists;
mod lookup;
pub mod mapping;
pub mod messages;
mod old_signals;
mod paths;
pub mod process;
pub mod raw;
pub mod refused;
mod signals;
pub mod streams;
mod transfer;
mod waiting;

pub use alternate::prepare_substitutes;
pub use process::install_at_fork;
pub use signals::{take_segv, unblock_ours};
