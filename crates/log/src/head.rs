//! The end of the log that one thread appends to.

use std::sync::Arc;

use aquifer_base::{AllocationClass, LogAddress};

use crate::error::AppendError;
use crate::log::{HeadKind, Log};
use crate::open_segment::OpenSegment;
use crate::record::{Kind, RecordId};

/// The right to append at one of the log's ends. There is one of each [`HeadKind`].
///
/// Pages and leaves go to segments of their own. A leaf is written many times while its pages are written once, so
/// segments of leaves are soon garbage as a whole and cost the cleaner nothing; among pages, their
/// garbage would wait until the pages are moved. For the same reason pages of each class go to segments of their own.
pub struct Head {
    log: Arc<Log>,
    pages: OpenSegment,
    leaves: OpenSegment,
}

impl Head {
    pub(crate) fn new(log: Arc<Log>, kind: HeadKind) -> Self {
        Self { log, pages: OpenSegment::new(kind, Kind::Page), leaves: OpenSegment::new(kind, Kind::Leaf) }
    }

    /// The log this is an end of.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Pages are of `class` from now on. They share blocks with those before only as far as the present one has room, and
    /// segments only when the log has none to spare.
    pub fn set_class(&mut self, class: AllocationClass) {
        self.pages.set_class(class);
    }

    /// Makes sure that the next `bytes` of records of `kind` and their markers go to one block, without waiting in between.
    ///
    /// Writes the present block to the device when it is too full, and opens a segment when the present
    /// one is full.
    ///
    /// # Errors
    /// [`AppendError`]. What was appended before can still be read.
    ///
    /// # Context
    /// Blocks on the device, and on the cleaner when free segments are down to the reserve. Hold no lock
    /// that the cleaner or a fault may need.
    pub fn make_room(&mut self, kind: Kind, bytes: usize) -> Result<(), AppendError> {
        match kind {
            Kind::Page => self.pages.make_room(&self.log, bytes),
            Kind::Leaf => self.leaves.make_room(&self.log, bytes),
        }
    }

    /// Bytes of records of `kind` and their markers that can be appended without waiting.
    pub fn room_bytes(&self, kind: Kind) -> usize {
        match kind {
            Kind::Page => self.pages.room_bytes(&self.log),
            Kind::Leaf => self.leaves.room_bytes(&self.log),
        }
    }

    /// Appends one record, behind a marker if the one before has another owner, and returns its address. The
    /// record counts as live; a marker never does.
    ///
    /// # Panics
    /// If [`Head::make_room`] did not make room for it.
    pub fn append(&mut self, id: RecordId, payload: &[u8]) -> LogAddress {
        match id.kind {
            Kind::Page => self.pages.append(&self.log, id, payload),
            Kind::Leaf => self.leaves.append(&self.log, id, payload),
        }
    }
}
