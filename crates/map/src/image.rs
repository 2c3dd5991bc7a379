//! A leaf spread out for change: the place of each of its 512 pages in the log.

use aquifer_base::LogAddress;
use aquifer_base::limits::LEAF_PAGES;
use aquifer_log::record::record_bytes;

/// Where the newest logged version of a page is: among `records` consecutive records from `address`.
///
/// One record is an exact address. More than one is a cluster: pages of one leaf that were written
/// together, found within it by their identity, so that they share one address in the packed leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

const RECORDS_SHIFT: u32 = 40;

impl Place {
    /// Never written, or freed: reads as zeros.
    pub const ZERO: Self = Self(0);

    /// The one record at `address`.
    pub const fn exact(address: LogAddress) -> Self {
        Self::cluster(address, 1)
    }

    /// One of `records` records from `address`.
    pub const fn cluster(address: LogAddress, records: u8) -> Self {
        Self(address.0 | (records as u64) << RECORDS_SHIFT)
    }

    /// Where to look; `None` for [`Place::ZERO`].
    pub const fn address(self) -> Option<LogAddress> {
        if self.0 == 0 { None } else { Some(LogAddress(self.0 & ((1 << RECORDS_SHIFT) - 1))) }
    }

    /// How many records to look through.
    pub const fn records(self) -> u8 {
        (self.0 >> RECORDS_SHIFT) as u8
    }

    /// Bytes to look through.
    pub const fn span_bytes(self, page_bytes: usize) -> usize {
        self.records() as usize * record_bytes(page_bytes)
    }

    /// Whether the page's version could be the record at `address`, for pages of `page_bytes`.
    pub fn covers(self, address: LogAddress, page_bytes: usize) -> bool {
        self.address().is_some_and(|start| {
            let end = start.plus_bytes(self.span_bytes(page_bytes));
            start <= address && address < end
        })
    }

    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// The places of all pages of a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    places: [Place; LEAF_PAGES],
}

impl Default for Image {
    fn default() -> Self {
        Self { places: [Place::ZERO; LEAF_PAGES] }
    }
}

impl Image {
    /// Place of the page at `index`.
    pub fn place(&self, index: usize) -> Place {
        self.places[index]
    }

    /// Replaces a place and returns the one before.
    pub fn replace(&mut self, index: usize, place: Place) -> Place {
        std::mem::replace(&mut self.places[index], place)
    }

    /// All places in order.
    pub fn places(&self) -> &[Place; LEAF_PAGES] {
        &self.places
    }

    /// Whether no page has a record.
    pub fn is_zero(&self) -> bool {
        self.places.iter().all(|&place| place == Place::ZERO)
    }
}
