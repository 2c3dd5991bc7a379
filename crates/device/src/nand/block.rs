//! What the flash itself knows of a block.

/// The state of one erase block. In a file it takes 16 bytes:
///
/// | bytes | content (little-endian) |
/// |---|---|
/// | 0..4 | pages used since the last erase |
/// | 4..8 | erases |
/// | 8 | 0 if it is good, 1 if it was bad from the factory, 2 if it went bad |
/// | 9..16 | zeros |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BlockState {
    /// Pages from the first on that were programmed, or used up by a program that failed, since the last erase.
    pub(super) used: u32,
    /// Times it was erased.
    pub(super) erases: u32,
    /// Whether it may be used.
    pub(super) health: Health,
}

/// Whether a block may be programmed and erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(super) enum Health {
    #[default]
    Good = 0,
    FactoryBad = 1,
    GrownBad = 2,
}

impl Health {
    fn from_code(code: u8) -> Option<Self> {
        [Health::Good, Health::FactoryBad, Health::GrownBad].into_iter().find(|health| *health as u8 == code)
    }
}

impl BlockState {
    pub(super) const BYTES: usize = 16;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.used.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.erases.to_le_bytes());
        bytes[8] = self.health as u8;
        bytes
    }

    /// `None` for what no block can be.
    pub(super) fn decode(bytes: &[u8], pages_per_block: u32) -> Option<Self> {
        let state = BlockState {
            used: u32::from_le_bytes(*bytes.first_chunk()?),
            erases: u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?),
            health: Health::from_code(*bytes.get(8)?)?,
        };
        (state.used <= pages_per_block).then_some(state)
    }
}
