//! The first bytes of the file of an emulated device.

use aquifer_base::checksum::crc32c_seeded;

use super::Geometry;

const MAGIC: [u8; 8] = *b"AqNand01";
const VERSION: u32 = 1;

/// | bytes | content (little-endian) |
/// |---|---|
/// | 0..8 | `AqNand01` |
/// | 8..12 | version, 1 |
/// | 12..36 | channels, dies per channel, planes per die, blocks per plane, pages per block, bytes per page: 4 each |
/// | 36..40 | CRC32C of the 36 bytes before |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Of the device.
    pub geometry: Geometry,
}

/// What the first bytes of a file say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFound {
    /// An emulated device.
    Header(Header),
    /// Something else, or damaged.
    NotNand,
    /// An emulated device of another version.
    OtherVersion(u32),
}

impl Header {
    /// Bytes of it.
    pub const BYTES: usize = 40;

    /// As it is in a file.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let g = self.geometry;
        let numbers = [
            VERSION,
            g.channels,
            g.dies_per_channel,
            g.planes_per_die,
            g.blocks_per_plane,
            g.pages_per_block,
            g.page_bytes,
        ];
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        for (index, number) in numbers.into_iter().enumerate() {
            bytes[8 + index * 4..][..4].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c_seeded(0, &bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What `bytes` begin with.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> HeaderFound {
        let number = |at: usize| bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk));
        let geometry = || {
            let geometry = Geometry {
                channels: number(12)?,
                dies_per_channel: number(16)?,
                planes_per_die: number(20)?,
                blocks_per_plane: number(24)?,
                pages_per_block: number(28)?,
                page_bytes: number(32)?,
            };
            let is_whole = number(36)? == crc32c_seeded(0, &bytes[..36]);
            (is_whole && geometry.check().is_ok()).then_some(geometry)
        };
        match (bytes.get(..8) == Some(&MAGIC), number(8)) {
            (true, Some(VERSION)) => match geometry() {
                Some(geometry) => HeaderFound::Header(Header { geometry }),
                None => HeaderFound::NotNand,
            },
            (true, Some(version)) => HeaderFound::OtherVersion(version),
            _ => HeaderFound::NotNand,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else() {
        let header = Header { geometry: Geometry { channels: 4, ..Geometry::single_die(10, 64, 4096) } };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), HeaderFound::Header(header));
        for bit in 0..Header::BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Header::decode(&flipped), HeaderFound::Header(_)), "bit {bit}");
        }
        for length in 0..Header::BYTES {
            assert!(!matches!(Header::decode(&bytes[..length]), HeaderFound::Header(_)), "length {length}");
        }
    }
}
