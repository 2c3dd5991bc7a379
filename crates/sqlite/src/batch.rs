//! Writes of a transaction that wait for its commit.

/// Writes in their order.
#[derive(Default)]
pub struct Batch {
    writes: Vec<(u64, Vec<u8>)>,
}

impl Batch {
    /// Adds a write.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.writes.push((offset, bytes.to_vec()));
    }

    /// All of them, offset and bytes.
    pub fn writes(&self) -> Vec<(u64, &[u8])> {
        self.writes.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect()
    }
}
