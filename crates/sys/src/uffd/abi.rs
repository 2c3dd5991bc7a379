//! The kernel's side of userfaultfd: structures and numbers of `linux/userfaultfd.h`, which the
//! libc crate lacks.

use core::mem::size_of;

/// The only version of the interface there is.
pub const API: u64 = 0xAA;
/// Flag of the system call: only faults in user mode, which needs no privilege.
pub const USER_MODE_ONLY: libc::c_int = 1;

pub const REGISTER_MISSING: u64 = 1 << 0;
pub const REGISTER_WP: u64 = 1 << 1;
pub const REGISTER_MINOR: u64 = 1 << 2;
pub const CONTINUE_WP: u64 = 1 << 1;
pub const COPY_WP: u64 = 1 << 1;
pub const WRITE_PROTECT_ON: u64 = 1 << 0;

pub const EVENT_PAGE_FAULT: u8 = 0x12;
pub const FAULT_WRITE: u64 = 1 << 0;
pub const FAULT_WP: u64 = 1 << 1;
pub const FAULT_MINOR: u64 = 1 << 2;

pub const IOC_API: u32 = read_write::<Api>(0x3F);
pub const IOC_REGISTER: u32 = read_write::<Register>(0x00);
pub const IOC_UNREGISTER: u32 = read::<Range>(0x01);
pub const IOC_WAKE: u32 = read::<Range>(0x02);
pub const IOC_COPY: u32 = read_write::<Copy>(0x03);
pub const IOC_ZERO: u32 = read_write::<Zero>(0x04);
pub const IOC_MOVE: u32 = read_write::<Move>(0x05);
pub const IOC_WRITE_PROTECT: u32 = read_write::<WriteProtect>(0x06);
pub const IOC_CONTINUE: u32 = read_write::<Zero>(0x07);
pub const IOC_POISON: u32 = read_write::<Zero>(0x08);
/// Asks `/dev/userfaultfd` for a new descriptor; the argument is the flags of the system call.
pub const IOC_NEW: u32 = request(0, 0x00, 0);

const fn read_write<T>(number: u32) -> u32 {
    request(3, number, size_of::<T>())
}

const fn read<T>(number: u32) -> u32 {
    request(2, number, size_of::<T>())
}

/// The kernel's encoding of an ioctl: direction, size of the argument, kind (0xAA), number.
const fn request(direction: u32, number: u32, argument_bytes: usize) -> u32 {
    direction << 30 | (argument_bytes as u32) << 16 | 0xAA << 8 | number
}

#[repr(C)]
pub struct Api {
    pub api: u64,
    /// In: the features wanted. Out: those the kernel has.
    pub features: u64,
    pub ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub len: u64,
}

#[repr(C)]
pub struct Register {
    pub range: Range,
    pub mode: u64,
    /// Out: the calls possible on this range.
    pub ioctls: u64,
}

#[repr(C)]
pub struct Copy {
    pub dst: u64,
    pub src: u64,
    pub len: u64,
    pub mode: u64,
    /// Out: bytes done, or a negative error number.
    pub done: i64,
}

/// The argument of three calls: fill with zeros, map present pages, and poison pages.
#[repr(C)]
pub struct Zero {
    pub range: Range,
    pub mode: u64,
    /// Out: bytes done, or a negative error number.
    pub done: i64,
}

#[repr(C)]
pub struct Move {
    pub dst: u64,
    pub src: u64,
    pub len: u64,
    pub mode: u64,
    /// Out: bytes done, or a negative error number.
    pub done: i64,
}

#[repr(C)]
pub struct WriteProtect {
    pub range: Range,
    pub mode: u64,
}

/// What `read` returns, in the shape it has for a page fault.
#[repr(C)]
#[derive(Default)]
pub struct Message {
    pub event: u8,
    pub reserved: [u8; 7],
    pub flags: u64,
    pub address: u64,
    pub thread_id: u32,
    pub padding: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the C preprocessor gives for the header's names.
    #[test]
    fn numbers_agree_with_the_header() {
        assert_eq!(IOC_API, 0xC018_AA3F);
        assert_eq!(IOC_REGISTER, 0xC020_AA00);
        assert_eq!(IOC_UNREGISTER, 0x8010_AA01);
        assert_eq!(IOC_WAKE, 0x8010_AA02);
        assert_eq!(IOC_COPY, 0xC028_AA03);
        assert_eq!(IOC_ZERO, 0xC020_AA04);
        assert_eq!(IOC_MOVE, 0xC028_AA05);
        assert_eq!(IOC_WRITE_PROTECT, 0xC018_AA06);
        assert_eq!(IOC_CONTINUE, 0xC020_AA07);
        assert_eq!(IOC_POISON, 0xC020_AA08);
        assert_eq!(IOC_NEW, 0xAA00);
        assert_eq!(size_of::<Message>(), 32);
    }
}
