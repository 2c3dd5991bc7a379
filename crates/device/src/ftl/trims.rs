//! The bitmap of logical pages that hold nothing.
//!
//! It is written in parts of one page each, which are logical pages of their own: valid until they are written again, moved when their block is
//! cleaned. A bit says that what the flash may still hold of a logical page from before this part was written is garbage. Whatever is written
//! to the logical page later has a higher sequence, and counts.

use super::mapping::Mapping;

/// Which parts have changed since they were written.
#[derive(Debug)]
pub(super) struct Trims {
    user_pages: u32,
    pages_per_part: u32,
    changed: Vec<bool>,
}

impl Trims {
    pub(super) fn new(user_pages: u32, page_bytes: u32) -> Self {
        let pages_per_part = page_bytes * 8;
        let parts = user_pages.div_ceil(pages_per_part);
        Trims { user_pages, pages_per_part, changed: vec![false; parts as usize] }
    }

    /// Logical pages that the bitmap takes.
    pub(super) fn parts(&self) -> u32 {
        self.changed.len() as u32
    }

    /// Notes that a page of the host was trimmed.
    pub(super) fn note(&mut self, logical: u32) {
        self.changed[(logical / self.pages_per_part) as usize] = true;
    }

    /// Notes that a part was written as it is now.
    pub(super) fn note_written(&mut self, part: u32) {
        self.changed[part as usize] = false;
    }

    /// The first part that must be written, if any.
    pub(super) fn first_changed(&self) -> Option<u32> {
        self.changed.iter().position(|&changed| changed).map(|part| part as u32)
    }

    /// The bytes of a part.
    pub(super) fn encode(&self, part: u32, mapping: &Mapping, bytes: &mut [u8]) {
        bytes.fill(0);
        for (bit, logical) in self.pages_of(part).enumerate() {
            if mapping.place(logical).is_none() {
                bytes[bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// The pages of the host that a part says hold nothing.
    pub(super) fn decode<'a>(&self, part: u32, bytes: &'a [u8]) -> impl Iterator<Item = u32> + use<'a> {
        let pages = self.pages_of(part);
        pages
            .enumerate()
            .filter(|(bit, _)| bytes[bit / 8] & (1 << (bit % 8)) != 0)
            .map(|(_, logical)| logical)
    }

    fn pages_of(&self, part: u32) -> std::ops::Range<u32> {
        let first = part * self.pages_per_part;
        first..self.user_pages.min(first.saturating_add(self.pages_per_part))
    }
}
