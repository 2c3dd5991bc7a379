//! What commits have copied of pages, kept for their next change where RAM is left over ([`crate::twins`]).

use super::Cache;
use crate::frame::{Frame, FrameState, Phase, Stage};
use crate::room::RoomPage;

/// Pages that are looked at for each kept copy that is to be dropped.
const KEPT_LOOKS: usize = 8;
/// Pages that may have lost their kept copy without notice.
const KEPT_UNKNOWN_MAX: usize = 1024;

/// What a commit has copied of a page, kept for the next change.
pub struct Kept {
    /// The page's bytes.
    pub copy: RoomPage,
    /// Whether it stands for another of the same page.
    pub is_known: bool,
}

impl Cache {
    /// Keeps what a commit has copied of a page, which the table points to now: the next change need not copy it again.
    pub fn keep_twin(&self, frame: &Frame, state: &mut FrameState, twin: Kept) {
        if state.twin.is_some() || matches!(state.phase, Phase::Leaving | Phase::Gone) {
            return;
        }
        state.twin = Some(twin.copy);
        if !twin.is_known {
            self.twins.note_kept(frame.key());
        }
    }

    /// Drops up to `count` of the copies that were kept of pages which did not change since, and says how many.
    pub fn drop_kept_twins(&self, count: usize) -> usize {
        let mut dropped = 0;
        for _ in 0..KEPT_LOOKS * count {
            if dropped == count {
                break;
            }
            let Some(key) = self.twins.oldest_kept() else { break };
            let Some(frame) = self.peek(key) else { continue };
            let mut state = frame.lock();
            if !state.stage.is_dirty() && state.stage != Stage::Taken {
                dropped += usize::from(state.twin.take().is_some());
            } else if state.twin.as_ref().is_some_and(|twin| self.twins.is_kept(twin)) {
                // A commit will compare the page with it.
                self.twins.note_kept(key);
            }
        }
        dropped
    }

    /// Forgets which pages had a copy, where many have none any more.
    pub fn tidy_kept_twins(&self) {
        for _ in KEPT_UNKNOWN_MAX..self.twins.unknown() {
            self.drop_kept_twins(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aquifer_device::MemoryDevice;

    use crate::medium::DeviceMedium;
    use crate::{Ino, Kind, OpenOptions, PAGE_BYTES, Volume};

    const PAGES: usize = 400;

    #[test]
    fn small_changes_are_compared_with_what_the_last_commit_copied_until_pages_need_the_ram() {
        let device = Arc::new(MemoryDevice::new(32 << 20, 4096));
        let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 256).expect("medium"));
        Volume::create(medium(), (0, 0)).expect("create");
        let options = OpenOptions { ram_bytes: 8 << 20, is_read_only: false };
        let volume = Volume::open(medium(), options).expect("open");
        let file = |name: &[u8], pages: usize| {
            let ino = volume.make(Ino::ROOT_FOLDER, name, Kind::File, 0o600, 0, 0).expect("make");
            volume.write(ino, 0, &vec![7; pages * PAGE_BYTES]).expect("write");
            volume.sync().expect("sync");
            ino
        };
        let store = |ino, round: u8| {
            for page in 0..PAGES {
                let at = (page * PAGE_BYTES + usize::from(round)) as u64;
                volume.write(ino, at, &[round]).expect("write");
            }
            volume.sync().expect("sync");
        };
        let twins = volume.core().cache.twins();
        let ino = file(b"changed", PAGES);
        assert!(twins.kept() < 10, "pages that were written whole have none: {}", twins.kept());
        store(ino, 1);
        let kept = twins.kept();
        assert!(kept >= PAGES, "{kept}");
        for round in 2..5 {
            for page in 0..PAGES {
                volume.write(ino, (page * PAGE_BYTES) as u64 + 99, &[round]).expect("write");
            }
            assert!(twins.made() < 10, "{} were copied again", twins.made());
            volume.sync().expect("sync");
            assert!((PAGES..PAGES + 50).contains(&twins.kept()), "{}", twins.kept());
        }
        // More pages than RAM has: what they leave to copies is little.
        let other = file(b"other", 3000);
        let mut bytes = vec![0; 3000 * PAGE_BYTES];
        volume.read(other, 0, &mut bytes).expect("read");
        assert!(twins.kept() < PAGES / 4, "{}", twins.kept());
        let mut page = [0; PAGE_BYTES];
        volume.read(ino, 9 * PAGE_BYTES as u64, &mut page).expect("read");
        assert_eq!((page[0], page[1], page[99]), (7, 1, 4));
    }
}
