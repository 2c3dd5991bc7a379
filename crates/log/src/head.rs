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
    whole: OpenSegment,
    leaves: OpenSegment,
}

impl Head {
    pub(crate) fn new(log: Arc<Log>, kind: HeadKind) -> Self {
        let [pages, whole, leaves] =
            [Kind::Page, Kind::Whole, Kind::Leaf].map(|records| OpenSegment::new(kind, records));
        Self { log, pages, whole, leaves }
    }

    /// The log this is an end of.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Pages are of `class` from now on. They share blocks with those before only as far as the present one has room, and
    /// segments only when the log has none to spare.
    pub fn set_class(&mut self, class: AllocationClass) {
        self.pages.set_class(class);
        self.whole.set_class(class);
    }

    fn of_kind(&mut self, kind: Kind) -> (&mut OpenSegment, &Log) {
        let open = match kind {
            Kind::Page => &mut self.pages,
            Kind::Whole => &mut self.whole,
            Kind::Leaf => &mut self.leaves,
        };
        (open, &self.log)
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
        let (open, log) = self.of_kind(kind);
        open.make_room(log, bytes)
    }

    /// Bytes of records of `kind` and their markers that can be appended without waiting.
    pub fn room_bytes(&mut self, kind: Kind) -> usize {
        let (open, log) = self.of_kind(kind);
        open.room_bytes(log)
    }

    /// Appends one record, behind a marker if the one before has another owner, and returns its address. The
    /// record counts as live; a marker never does.
    ///
    /// # Panics
    /// If [`Head::make_room`] did not make room for it.
    pub fn append(&mut self, id: RecordId, payload: &[u8]) -> LogAddress {
        let (open, log) = self.of_kind(id.kind);
        open.append(log, id, payload)
    }
}
