//! What is served: name, size, blocks and what it can do.

use aquifer_device::Device;

use super::request::TRANSFER_BYTES_MAX;
use super::wire::export_flag::{
    CAN_MULTI_CONN, HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
};

/// Longest name of an export, bytes; the protocol's own limit.
pub const NAME_BYTES_MAX: usize = 4096;

/// The transfer that suits a kernel best, bytes: its page.
const PREFERRED_BYTES: u32 = 4096;

/// What a client is told of the device, and its requests are checked against.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// By which clients ask for it; they may also ask for the empty name.
    pub name: String,
    /// Size of the device.
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of this.
    pub block_bytes: u32,
}

/// Smallest, best and largest transfer, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    pub least: u32,
    pub preferred: u32,
    pub most: u32,
}

impl Export {
    /// The whole of `device` under `name`; of a name that is too long, its beginning.
    #[must_use]
    pub fn of(device: &dyn Device, name: &str) -> Self {
        let is_end = |&end: &usize| name.is_char_boundary(end);
        let end = (0..=NAME_BYTES_MAX).rev().find(is_end).unwrap_or(0);
        let name = name[..end].to_owned();
        let block_bytes = u32::try_from(device.block_bytes()).expect("a block has 512 or 4096 bytes");
        Export { name, size_bytes: device.len_bytes(), block_bytes }
    }

    /// Whether a client that says `name` means this export.
    pub fn is_called(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// What it can do, in the protocol's bits.
    pub fn flags(&self) -> u16 {
        HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN
    }

    /// What transfers a client may ask for.
    pub fn block_sizes(&self) -> BlockSizes {
        BlockSizes {
            least: self.block_bytes,
            preferred: self.block_bytes.max(PREFERRED_BYTES),
            most: TRANSFER_BYTES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_device::MemoryDevice;

    #[test]
    fn long_names_end_between_characters() {
        let device = MemoryDevice::new(8192, 4096);
        let name = |name: &str| Export::of(&device, name).name;
        assert_eq!(name("a"), "a");
        assert_eq!(name(""), "");
        assert_eq!(name(&"\u{e9}".repeat(3000)), "\u{e9}".repeat(2048));
        assert_eq!(name(&format!("a{}", "\u{e9}".repeat(3000))).len(), 4095);
        let export = Export::of(&device, "a");
        assert!(export.is_called(b"") && export.is_called(b"a") && !export.is_called(b"b"));
        let sizes = BlockSizes { least: 4096, preferred: 4096, most: 32 << 20 };
        assert_eq!((export.size_bytes, export.block_sizes()), (8192, sizes));
    }
}
