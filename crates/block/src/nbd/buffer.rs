//! Memory of one request.

use aquifer_device::AlignedBuffer;

use super::reply::REPLY_BYTES;

/// Bytes that are moved at a time; longer requests go in pieces of this.
pub const PIECE_BYTES: usize = 1 << 20;

/// Where the data begin: on a page, as devices want it, with room for a reply before them.
const DATA_AT: usize = 4096;

/// Room for a piece of data, and for a reply directly before it, so that both leave in one call.
pub struct RequestBuffer(AlignedBuffer);

impl RequestBuffer {
    /// A buffer whose memory is there: it was written, so that no page of it has to be found when memory is short.
    pub fn new() -> Self {
        let mut memory = AlignedBuffer::new(DATA_AT + PIECE_BYTES);
        memory.fill(0xAA);
        RequestBuffer(memory)
    }

    /// Room for the first `len` bytes of a piece, at most [`PIECE_BYTES`].
    pub fn data(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[DATA_AT..DATA_AT + len]
    }

    /// `reply` and the first `len` bytes of the piece after it.
    pub fn with_reply(&mut self, reply: [u8; REPLY_BYTES], len: usize) -> &[u8] {
        self.0[DATA_AT - REPLY_BYTES..DATA_AT].copy_from_slice(&reply);
        &self.0[DATA_AT - REPLY_BYTES..DATA_AT + len]
    }
}

/// The pieces of `len_bytes` bytes at `offset`: offset and length of each.
pub fn pieces(offset: u64, len_bytes: u32) -> impl Iterator<Item = (u64, usize)> {
    let len = len_bytes as usize;
    (0..len).step_by(PIECE_BYTES).map(move |done| (offset + done as u64, (len - done).min(PIECE_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_stands_before_its_data() {
        let mut buffer = RequestBuffer::new();
        buffer.data(3).copy_from_slice(b"abc");
        assert_eq!(buffer.with_reply([7; 16], 3), [&[7; 16][..], b"abc"].concat());
        assert_eq!(buffer.data(512).as_ptr().addr() % 4096, 0);
        assert_eq!(buffer.data(PIECE_BYTES).len(), PIECE_BYTES);
    }

    #[test]
    fn pieces_cover_the_range() {
        let all = |len| pieces(512, len).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(512), [(512, 512)]);
        assert_eq!(all(1 << 20), [(512, 1 << 20)]);
        assert_eq!(all((1 << 20) + 512), [(512, 1 << 20), (512 + (1 << 20), 512)]);
        assert_eq!(all(u32::MAX).len(), 4096);
    }
}
