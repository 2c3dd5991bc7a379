//! What a translation layer cannot do.

use crate::nand::{NandError, PageId};

/// A request that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FtlError {
    /// The bytes of a logical page cannot be read any more.
    #[error(
        "the bytes of logical page {0} are lost: too many bits of the flash are wrong; write the page again"
    )]
    Lost(u32),
    /// A page does not hold what the table says.
    #[error("{page} should hold logical page {logical} and does not; its checksum or its owner is another")]
    Damaged {
        /// The page.
        page: PageId,
        /// What it should hold.
        logical: u32,
    },
    /// Too many blocks have gone bad. What is on the flash can be read, nothing can be written.
    #[error("the flash is worn out: too few good blocks are left to write to")]
    WornOut,
    /// The flash failed.
    #[error(transparent)]
    Nand(NandError),
}

impl From<NandError> for FtlError {
    /// # Panics
    /// When a rule was broken: then the table is wrong, and going on would cost data.
    fn from(error: NandError) -> Self {
        assert!(!matches!(error, NandError::Violation(_)), "the translation layer: {error}");
        FtlError::Nand(error)
    }
}

/// Why there is no translation layer for a device.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum FtlOpenError {
    /// There are too few spare blocks for open blocks and the reserve.
    #[error(
        "{spare_blocks} spare blocks are too few: open blocks and the reserve take {needed_blocks}; raise the over-provisioning (now {over_provisioning}), or take more or smaller blocks, or fewer dies"
    )]
    TooFewSpareBlocks {
        /// Blocks beyond those that hold user pages.
        spare_blocks: u32,
        /// Blocks that must be spare.
        needed_blocks: u32,
        /// (T - U) / U as it was asked for.
        over_provisioning: f64,
    },
    /// Not a share.
    #[error("an over-provisioning of {0} cannot be; give spare pages by user pages, as in 0.07")]
    OverProvisioning(f64),
    /// A policy that chooses among no blocks.
    #[error("at least one block must be looked at to choose a victim")]
    NoChoices,
    /// Nothing could be moved when all blocks are full.
    #[error("each die needs a reserve of at least one free block")]
    NoReserve,
    /// The flash holds more or other logical pages than the options give.
    #[error(
        "the flash holds logical page {logical}, and there are {user_pages}; open it with the over-provisioning that it was made with"
    )]
    ForeignPage {
        /// What was found.
        logical: u64,
        /// Logical pages that there are.
        user_pages: u32,
    },
    /// A page says that it is newer than any page can be.
    #[error(
        "{page} has the sequence {sequence}, which no device reaches; its file was not written by this emulator"
    )]
    Sequence {
        /// The page.
        page: PageId,
        /// What it says.
        sequence: u64,
    },
    /// The flash failed.
    #[error(transparent)]
    Nand(#[from] NandError),
}
