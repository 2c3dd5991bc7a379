//! What the kernel is told about the device.

use aquifer_device::Device;

use super::abi::{
    ATTRIBUTE_FUA, ATTRIBUTE_VOLATILE_CACHE, BasicParameters, DiscardParameters, PARTS, Parameters,
    SECTOR_BYTES,
};

/// Longest transfer, and room of each request, bytes.
pub const TRANSFER_BYTES_MAX: u32 = 512 << 10;

/// Longest range that is discarded at once, bytes: it costs nothing here, but the device may take its time.
const DISCARD_BYTES_MAX: u64 = 1 << 30;
/// Longest range of zeros at once, bytes: they are written.
const ZEROES_BYTES_MAX: u64 = 16 << 20;

/// What the kernel is told about `device`.
pub fn parameters_of(device: &dyn Device) -> Parameters {
    let block_bytes = device.block_bytes() as u32;
    let block_shift = block_bytes.trailing_zeros() as u8;
    let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
    Parameters {
        len_bytes: size_of::<Parameters>() as u32,
        parts: PARTS,
        basic: BasicParameters {
            attributes: ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA,
            logical_block_shift: block_shift,
            physical_block_shift: block_shift,
            best_transfer_shift: block_shift,
            least_transfer_shift: block_shift,
            sectors_max: sectors(TRANSFER_BYTES_MAX.into()),
            device_sectors: device.len_bytes() / SECTOR_BYTES,
            ..BasicParameters::default()
        },
        discard: DiscardParameters {
            granularity: block_bytes,
            discard_sectors_max: sectors(DISCARD_BYTES_MAX),
            zeroes_sectors_max: sectors(ZEROES_BYTES_MAX),
            segments_max: 1,
            ..DiscardParameters::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_device::MemoryDevice;

    #[test]
    fn sizes_are_told_in_sectors_and_powers() {
        let parameters = parameters_of(&MemoryDevice::new(1 << 20, 4096));
        assert_eq!(parameters.basic.device_sectors, 2048);
        assert_eq!(parameters.basic.logical_block_shift, 12);
        assert_eq!(parameters.basic.sectors_max, 1024);
        assert_eq!(parameters.discard.granularity, 4096);
        assert_eq!(parameters.discard.zeroes_sectors_max, 32768);
        assert_eq!(parameters.len_bytes, 64);
    }
}
