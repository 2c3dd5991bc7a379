//! A leaf that was loaded in order and of which a few pages were rewritten since.
//!
//! Most of its pages still lie on lines: record after record, as long as the page numbers. A page that left its line
//! interrupts a run for good, and is only an exception to a line.

use aquifer_base::LogAddress;
use aquifer_base::limits::{LEAF_PAGES, LOG_ADDRESS_BITS, LOG_GRAIN_BYTES};
use aquifer_log::record::record_bytes;

use crate::image::{Image, Place};

/// Consecutive pages on a line that begin a new line.
const NEIGHBOURS: usize = 3;

/// The lines of a leaf.
pub(super) struct Lines {
    /// Every page on its line, exceptions too.
    pub(super) base: Image,
    /// How many pages are exceptions.
    pub(super) exceptions: usize,
}

/// What all places of a line have in common: its address for page 0, below 0 if it begins later; or zero.
#[derive(Clone, Copy, PartialEq)]
struct Line(Option<i64>);

impl Line {
    /// The line that the place of page `index` is on; `None` if its exact address is not known.
    fn through(place: Place, index: usize, step: i64) -> Option<Self> {
        match place.address() {
            None => Some(Self(None)),
            Some(address) => {
                (place.records() == 1).then(|| Self(Some(address.0 as i64 - index as i64 * step)))
            }
        }
    }

    /// Where page `index` would be on the line; zero where the line leaves the range of addresses, as it may for an
    /// exception near one of the log's ends.
    fn place(self, index: usize, step: i64) -> Place {
        let address = self.0.map(|start| start + index as i64 * step);
        let in_range = address.filter(|address| (1..1 << LOG_ADDRESS_BITS).contains(address));
        in_range.map_or(Place::ZERO, |address| Place::exact(LogAddress(address as u64)))
    }
}

/// Finds the lines of `image`.
pub(super) fn find(image: &Image, page_bytes: usize) -> Lines {
    let step = (record_bytes(page_bytes) / LOG_GRAIN_BYTES) as i64;
    let through = |index: usize| Line::through(image.place(index), index, step);
    let begins_line = |index: usize, line: Line| {
        (index + 1..index + NEIGHBOURS).all(|next| next < LEAF_PAGES && through(next) == Some(line))
    };
    let mut lines = Lines { base: Image::default(), exceptions: 0 };
    let first = (0..LEAF_PAGES).find_map(|index| through(index).filter(|&line| begins_line(index, line)));
    let mut current = first.unwrap_or(Line(None));
    for index in 0..LEAF_PAGES {
        let line = through(index);
        if let Some(line) = line.filter(|&line| line != current && begins_line(index, line)) {
            current = line;
        }
        lines.exceptions += usize::from(line != Some(current));
        lines.base.replace(index, current.place(index, step));
    }
    lines
}
