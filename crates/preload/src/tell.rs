//! Lines on standard error, which may be closed or full: the program goes on without them.

use std::fmt::Arguments;

use aquifer_sys::stderr;

/// Writes a text, by one call as far as the kernel takes it.
pub fn write(text: Arguments<'_>) {
    stderr::write(text.to_string().as_bytes());
}

/// Writes a line.
macro_rules! tell {
    ($($text:tt)*) => { $crate::tell::write(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use tell;
