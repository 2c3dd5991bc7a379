//! Structures and numbers of the kernel's interface, `linux/ublk_cmd.h`, in the machine's own order of bytes.
//!
//! The commands are those that carry their direction and size, as those of `ioctl` do: kernels have them since 6.5, and newer ones know no others.

/// Where devices are made and removed.
pub const CONTROL_PATH: &str = "/dev/ublk-control";

/// Bytes of a sector, in which the kernel counts whatever the device's blocks are.
pub const SECTOR_BYTES: u64 = 512;

/// A device asks for this number when it does not mind which it gets.
pub const ANY_ID: u32 = u32::MAX;
/// In commands that are for no queue.
pub const NO_QUEUE: u16 = u16::MAX;

/// Most requests of a queue that there could ever be: the distance between the descriptors of two queues follows from it.
pub const DEPTH_MAX: usize = 4096;

/// A device that knows the commands with direction and size.
pub const FLAG_ENCODED_COMMANDS: u64 = 1 << 6;

/// The state of a device that nobody serves.
pub const STATE_DEAD: u16 = 0;

/// A request is there.
pub const RESULT_OK: i32 = 0;

const READS: u32 = 2;
const READS_AND_WRITES: u32 = 3;

/// A command as `_IOR` and `_IOWR` make it.
const fn encoded(direction: u32, number: u32, len_bytes: usize) -> u32 {
    direction << 30 | (len_bytes as u32) << 16 | (b'u' as u32) << 8 | number
}

/// Commands to the control device.
pub mod control {
    use super::{ControlCommand, READS, READS_AND_WRITES, encoded};

    const BYTES: usize = size_of::<ControlCommand>();
    /// What there is to know of a device.
    pub const GET_DEV_INFO: u32 = encoded(READS, 0x02, BYTES);
    /// Makes a device, which nobody sees yet.
    pub const ADD_DEV: u32 = encoded(READS_AND_WRITES, 0x04, BYTES);
    /// Takes it away, and waits until nobody has it open.
    pub const DEL_DEV: u32 = encoded(READS_AND_WRITES, 0x05, BYTES);
    /// Shows it, once its queues are served.
    pub const START_DEV: u32 = encoded(READS_AND_WRITES, 0x06, BYTES);
    /// Hides it, once requests that have begun are answered.
    pub const STOP_DEV: u32 = encoded(READS_AND_WRITES, 0x07, BYTES);
    /// The same, without waiting for those who have it open; kernels from 6.9 on.
    pub const DEL_DEV_ASYNC: u32 = encoded(READS, 0x14, BYTES);
    /// Says how large it is, and what it can do.
    pub const SET_PARAMS: u32 = encoded(READS_AND_WRITES, 0x08, BYTES);
}

/// Commands to a queue of a device.
pub mod queue {
    use super::{QueueCommand, READS_AND_WRITES, encoded};

    const BYTES: usize = size_of::<QueueCommand>();
    /// Waits for the first request of a tag.
    pub const FETCH_REQ: u32 = encoded(READS_AND_WRITES, 0x20, BYTES);
    /// Answers a request, and waits for the next of its tag.
    pub const COMMIT_AND_FETCH_REQ: u32 = encoded(READS_AND_WRITES, 0x21, BYTES);
}

/// What a request asks for: the low byte of a descriptor's first word.
pub mod operation {
    /// Device to buffer.
    pub const READ: u32 = 0;
    /// Buffer to device.
    pub const WRITE: u32 = 1;
    /// Makes durable what was answered.
    pub const FLUSH: u32 = 2;
    /// The range is no longer needed.
    pub const DISCARD: u32 = 3;
    /// The range reads as zeros from now on.
    pub const WRITE_ZEROES: u32 = 5;
    /// Of a descriptor's first word: durable before it is answered.
    pub const FLAG_FUA: u32 = 1 << 13;
}

/// A command to the control device.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ControlCommand {
    /// Which device.
    pub id: u32,
    /// Which queue, or [`NO_QUEUE`].
    pub queue: u16,
    /// Bytes at `address`.
    pub len_bytes: u16,
    /// What goes with the command, or is filled by it.
    pub address: u64,
    /// A number that goes with it.
    pub data: u64,
    /// Of devices of users that are not root.
    pub path_len_bytes: u16,
    pub padding: u16,
    pub reserved: u32,
}

/// A device, as the kernel describes it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct DeviceInfo {
    pub queues: u16,
    /// Requests of a queue at once.
    pub depth: u16,
    /// [`STATE_DEAD`] or another.
    pub state: u16,
    pub padding: u16,
    /// Longest transfer.
    pub buffer_bytes_max: u32,
    pub id: u32,
    /// Process that serves the device.
    pub process: i32,
    pub padding_too: u32,
    pub flags: u64,
    /// Ours: the kernel does not look at it.
    pub mark: u64,
    pub owner_user: u32,
    pub owner_group: u32,
    pub reserved: [u64; 2],
}

/// One request of a queue, in memory that the kernel writes.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Operation and flags.
    pub operation: u32,
    pub sectors: u32,
    pub first_sector: u64,
    pub address: u64,
}

/// A command to a queue.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct QueueCommand {
    pub queue: u16,
    /// Which of its requests.
    pub tag: u16,
    /// Of the request that is answered: bytes, or an error's number below 0.
    pub result: i32,
    /// Where the bytes of the next request go to or come from.
    pub address: u64,
}

/// What a device is like.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Parameters {
    /// Of all this.
    pub len_bytes: u32,
    /// Which of the parts below are there.
    pub parts: u32,
    pub basic: BasicParameters,
    pub discard: DiscardParameters,
}

/// The parts of [`Parameters`] that we have.
pub const PARTS: u32 = 1 << 0 | 1 << 1;

/// Writes are durable after a flush only.
pub const ATTRIBUTE_VOLATILE_CACHE: u32 = 1 << 2;
/// A write can be durable by itself.
pub const ATTRIBUTE_FUA: u32 = 1 << 3;

/// Size and blocks.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct BasicParameters {
    pub attributes: u32,
    /// Blocks as powers of two, bytes.
    pub logical_block_shift: u8,
    pub physical_block_shift: u8,
    pub best_transfer_shift: u8,
    pub least_transfer_shift: u8,
    /// Longest transfer.
    pub sectors_max: u32,
    pub chunk_sectors: u32,
    pub device_sectors: u64,
    pub boundary_mask: u64,
}

/// What has no bytes.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct DiscardParameters {
    pub alignment: u32,
    /// Bytes.
    pub granularity: u32,
    pub discard_sectors_max: u32,
    pub zeroes_sectors_max: u32,
    pub segments_max: u16,
    pub reserved: u16,
}

#[cfg(test)]
mod tests;
