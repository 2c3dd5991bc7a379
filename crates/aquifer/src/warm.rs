//! Blocks of ordinary memory that were freed a moment ago.
//!
//! Programs free and allocate blocks of the same size in turn. The kernel would take their pages back and clear new ones each
//! time, which costs a compiler a tenth of its time.

/// Most blocks that are kept.
const BLOCKS_MAX: usize = 64;

struct Block {
    address: usize,
    bytes: usize,
}

/// Freed blocks that still have their pages, the newest last.
pub(crate) struct Warm {
    blocks: Vec<Block>,
    bytes: usize,
    bytes_max: usize,
}

impl Warm {
    /// Keeps up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { blocks: Vec::with_capacity(BLOCKS_MAX), bytes: 0, bytes_max }
    }

    /// A block of at least `bytes`, and not much more, at a multiple of `align`: its address. Its bytes are what they were.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let fits = |block: &Block| {
            (bytes..=bytes.saturating_add(bytes / 4)).contains(&block.bytes)
                && block.address.is_multiple_of(align)
        };
        let at = self.blocks.iter().rposition(fits)?;
        let block = self.blocks.remove(at);
        self.bytes -= block.bytes;
        Some(block.address)
    }

    /// Keeps a block that was freed, if it is not too large.
    pub(crate) fn keep(&mut self, address: usize, bytes: usize) -> bool {
        let has_room = self.blocks.len() < BLOCKS_MAX && self.bytes + bytes <= self.bytes_max;
        if has_room {
            self.blocks.push(Block { address, bytes });
            self.bytes += bytes;
        }
        has_room
    }

    /// Whether a block is kept: it was freed already.
    pub(crate) fn has(&self, address: usize) -> bool {
        self.blocks.iter().any(|block| block.address == address)
    }

    /// Takes the block that was freed longest ago.
    pub(crate) fn take_oldest(&mut self) -> Option<usize> {
        if self.blocks.is_empty() {
            return None;
        }
        let block = self.blocks.remove(0);
        self.bytes -= block.bytes;
        Some(block.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_block_that_fits_comes_back() {
        let mut warm = Warm::new(1 << 20);
        assert!(warm.keep(0x10000, 70_000) && warm.keep(0x30010, 65_536) && warm.keep(0x50000, 300_000));
        assert_eq!(warm.take(65_536, 16), Some(0x30010));
        assert_eq!(warm.take(65_536, 4096), Some(0x10000));
        assert_eq!(warm.take(65_536, 16), None, "the other is too large");
        assert!(warm.has(0x50000) && !warm.has(0x10000));
        assert!(!warm.keep(0x90000, 1 << 20), "too much");
        assert_eq!((warm.take_oldest(), warm.take_oldest(), warm.bytes), (Some(0x50000), None, 0));
    }
}
