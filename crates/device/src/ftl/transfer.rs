//! Bytes instead of pages: what a block device is asked for.

use std::ops::Range;

use super::error::FtlError;
use super::translation::Ftl;

/// The part of one logical page that a transfer touches.
struct Piece {
    logical: u32,
    /// Of the page.
    of_page: Range<usize>,
    /// Of the transfer.
    of_transfer: Range<usize>,
}

impl Ftl {
    /// Bytes that the host can use.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.user_pages) * u64::from(self.page_bytes())
    }

    /// Fills `bytes` from `offset`; returns when all of it is there. Parts of pages cost as much as whole ones.
    ///
    /// # Errors
    /// [`FtlError`]; `bytes` are then undefined.
    ///
    /// # Panics
    /// When the range does not lie inside the device.
    pub fn read_bytes(&mut self, offset: u64, bytes: &mut [u8], at_ns: u64) -> Result<u64, FtlError> {
        let mut done_ns = at_ns;
        for piece in self.pieces(offset, bytes.len()) {
            let target = &mut bytes[piece.of_transfer.clone()];
            let page_done_ns = if piece.of_page.len() == self.page_bytes() as usize {
                self.read(piece.logical, target, at_ns)?
            } else {
                let mut page = vec![0; self.page_bytes() as usize];
                let page_done_ns = self.read(piece.logical, &mut page, at_ns)?;
                target.copy_from_slice(&page[piece.of_page]);
                page_done_ns
            };
            done_ns = done_ns.max(page_done_ns);
        }
        Ok(done_ns)
    }

    /// Writes `bytes` at `offset`; returns when all of it is durable. A part of a page costs a read and a write of the page.
    ///
    /// # Errors
    /// [`FtlError`]; each page of the range then holds old or new bytes.
    ///
    /// # Panics
    /// As [`read_bytes`](Self::read_bytes).
    pub fn write_bytes(&mut self, offset: u64, bytes: &[u8], at_ns: u64) -> Result<u64, FtlError> {
        let mut done_ns = at_ns;
        for piece in self.pieces(offset, bytes.len()) {
            let source = &bytes[piece.of_transfer.clone()];
            let page_done_ns = if piece.of_page.len() == self.page_bytes() as usize {
                self.write(piece.logical, source, at_ns)?
            } else {
                let mut page = vec![0; self.page_bytes() as usize];
                let read_ns = self.read(piece.logical, &mut page, at_ns)?;
                page[piece.of_page].copy_from_slice(source);
                self.write(piece.logical, &page, read_ns)?
            };
            done_ns = done_ns.max(page_done_ns);
        }
        Ok(done_ns)
    }

    /// Says that a range holds nothing any more. Pages of which only a part is in the range stay as they are.
    ///
    /// # Panics
    /// As [`read_bytes`](Self::read_bytes).
    pub fn trim_bytes(&mut self, offset: u64, len_bytes: u64) {
        let page_bytes = u64::from(self.page_bytes());
        assert!(offset.checked_add(len_bytes).is_some_and(|end| end <= self.len_bytes()));
        for logical in offset.div_ceil(page_bytes)..(offset + len_bytes) / page_bytes {
            self.trim(logical as u32);
        }
    }

    fn pieces(&self, offset: u64, len_bytes: usize) -> impl Iterator<Item = Piece> + use<> {
        let page_bytes = u64::from(self.page_bytes());
        let end = offset + len_bytes as u64;
        assert!(end <= self.len_bytes(), "{len_bytes} bytes at {offset} of {}", self.len_bytes());
        let last = end.div_ceil(page_bytes);
        (offset / page_bytes..last).map(move |logical| {
            let start = logical * page_bytes;
            let (from, to) = (offset.max(start), end.min(start + page_bytes));
            Piece {
                logical: logical as u32,
                of_page: (from - start) as usize..(to - start) as usize,
                of_transfer: (from - offset) as usize..(to - offset) as usize,
            }
        })
    }
}
