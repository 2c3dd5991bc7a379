//! What flash itself asks for, where it counts erases and fails: segments that failed are emptied while they can be read, and segments with pages that
//! never change are emptied now and then, so that they are erased as often as others (static wear levelling).

use crate::core::Core;
use crate::error::Result;
use crate::writer::{Head, Writer};

/// Erases by which a segment may lag behind the one that was erased most. Flash stands 1000 and more, so that this is some percent of it; and it is twice
/// [`TAKEN_FOR_EACH`], because a segment's turn must come before the others are erased so often again.
const ERASE_LAG_MAX: u32 = 32;

/// Segments that are written for each that is emptied for its lag alone: what levelling costs is a sixteenth of all that is written.
const TAKEN_FOR_EACH: u32 = 16;

impl Core {
    /// Empties one segment, if one has failed or lags behind and there is room for its pages.
    ///
    /// # Errors
    /// What stops a volume.
    pub(crate) fn care_for_flash(&self, writer: &mut Writer) -> Result<()> {
        if writer.segments.free() < self.limits().free_segments {
            return Ok(());
        }
        if let Some(failed) = writer.segments.failed(writer.anchored()) {
            return self.clean(writer, failed);
        }
        let Some(lagging) = self.lagging(writer) else { return Ok(()) };
        // Its pages get a segment of their own: among pages that change they would be moved again and again. The anchor says where the head went.
        if let Err(error) = writer.leave_segment(self.flash.medium(), Head::Moves) {
            self.stop(&error);
            return Err(error);
        }
        self.checkpoint(writer, false)?;
        self.clean(writer, lagging)
    }

    /// The sealed segment that was erased least, when it is time to look and it lags too far behind.
    fn lagging(&self, writer: &mut Writer) -> Option<u32> {
        if writer.segments.taken() < TAKEN_FOR_EACH {
            return None;
        }
        writer.segments.forget_taken();
        let (medium, segments) = (self.flash.medium(), &writer.segments);
        let most = segments.all_usable().map(|segment| medium.erases(segment)).max()?;
        let sealed = segments.sealed(writer.anchored()).filter(|&segment| !segments.is_stuck(segment));
        sealed
            .filter(|&segment| segments.units()[segment as usize] > 0)
            .map(|segment| (medium.erases(segment), segment))
            .min()
            .filter(|(erases, _)| most - erases > ERASE_LAG_MAX)
            .map(|(_, segment)| segment)
    }
}
