//! What is programmed beside a page.

use aquifer_base::checksum::crc32c_seeded;

/// Out-of-band bytes of each page.
pub const OOB_BYTES: usize = 32;

/// What a page holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// A logical page of the host.
    Data = 1,
    /// The mark of a logical page whose bytes could not be read any more when it was moved. Reading it is an error.
    Lost = 2,
    /// A part of the bitmap of trimmed logical pages.
    Trims = 3,
}

impl PageKind {
    fn from_code(code: u8) -> Option<Self> {
        [PageKind::Data, PageKind::Lost, PageKind::Trims].into_iter().find(|kind| *kind as u8 == code)
    }
}

/// | bytes | content (little-endian) |
/// |---|---|
/// | 0 | kind of page; 0 and 255 are invalid |
/// | 1..8 | zeros |
/// | 8..16 | logical page, or number of the part of the bitmap |
/// | 16..24 | sequence: grows with each program of the device |
/// | 24..28 | CRC32C of the page's bytes |
/// | 28..32 | CRC32C of the 28 bytes before |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oob {
    /// What the page holds.
    pub kind: PageKind,
    /// Whose bytes they are.
    pub logical: u64,
    /// Which of several pages with the same `logical` is the newest.
    pub sequence: u64,
    /// CRC32C of the page's bytes; 0 where bytes are not kept.
    pub data_crc: u32,
}

impl Oob {
    /// As it is programmed.
    #[must_use]
    pub fn encode(&self) -> [u8; OOB_BYTES] {
        let mut bytes = [0; OOB_BYTES];
        bytes[0] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.logical.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.data_crc.to_le_bytes());
        let crc = crc32c_seeded(0, &bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What was programmed; `None` for bytes that are erased, torn or damaged.
    #[must_use]
    pub fn decode(bytes: &[u8; OOB_BYTES]) -> Option<Self> {
        let crc = u32::from_le_bytes(*bytes[28..].first_chunk()?);
        if crc32c_seeded(0, &bytes[..28]) != crc {
            return None;
        }
        Some(Oob {
            kind: PageKind::from_code(bytes[0])?,
            logical: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            sequence: u64::from_le_bytes(*bytes[16..].first_chunk()?),
            data_crc: u32::from_le_bytes(*bytes[24..].first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OOB: Oob = Oob { kind: PageKind::Lost, logical: 7, sequence: 1 << 40, data_crc: 0xDEAD_BEEF };

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else() {
        let bytes = OOB.encode();
        assert_eq!(Oob::decode(&bytes), Some(OOB));
        for bit in 0..OOB_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Oob::decode(&flipped), None, "bit {bit}");
        }
        assert_eq!(Oob::decode(&[0xFF; OOB_BYTES]), None);
        assert_eq!(Oob::decode(&[0; OOB_BYTES]), None);
    }
}
