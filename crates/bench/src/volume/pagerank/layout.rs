//! Where what stands in the file.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Least edges for each vertex, as in Graph500.
const EDGES_PER_VERTEX: u64 = 16;
const PAGE_WORDS: usize = 512;
/// A smaller graph says nothing.
const SCALE_MIN: u32 = 10;
/// Vertices are numbers of 32 bits.
const SCALE_MAX: u32 = 31;

/// A graph of `1 << scale` vertices. Sections begin at pages, in this order: where the edges of each destination begin (words), sources of all
/// edges (half words), edges out of each vertex (half words), two vectors (words).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Logarithm of the number of vertices.
    pub scale: u32,
    /// Edges.
    pub edges: u64,
}

impl Layout {
    /// The largest graph of at most `bytes`.
    ///
    /// # Errors
    /// [`Error::Input`] if that is too small.
    pub fn of_bytes(bytes: u64) -> Result<Self> {
        let of_vertex = 28 + 4 * EDGES_PER_VERTEX;
        let scale = (bytes / of_vertex).checked_ilog2().unwrap_or(0).min(SCALE_MAX);
        if scale < SCALE_MIN {
            return Err(Error::Input("--ram and --times leave no room for a graph".to_owned()));
        }
        let rounding = 6 * PAGE_WORDS as u64 * 8;
        let edges = (bytes.saturating_sub(rounding + (28 << scale)) / 4) & !1;
        Ok(Self { scale, edges })
    }

    /// Vertices.
    pub fn vertices(self) -> usize {
        1 << self.scale
    }

    /// First word of the sources.
    pub fn sources(self) -> usize {
        (self.vertices() + 1).next_multiple_of(PAGE_WORDS)
    }

    /// First word of the numbers of edges out of each vertex.
    pub fn degrees(self) -> usize {
        self.sources() + (self.edges as usize).div_ceil(2).next_multiple_of(PAGE_WORDS)
    }

    /// First word of one of the two vectors.
    pub fn vector(self, which: usize) -> usize {
        self.degrees() + (self.vertices() / 2).next_multiple_of(PAGE_WORDS) + which * self.vertices()
    }

    /// All of it.
    pub fn bytes(self) -> u64 {
        self.vector(2) as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_one_another_and_fit() {
        for bytes in [1 << 20, 5 << 20, (64 << 20) - 4096, 3 << 30] {
            let layout = Layout::of_bytes(bytes).expect("room");
            assert!(layout.bytes() <= bytes && layout.bytes() > bytes / 100 * 95, "{bytes}: {layout:?}");
            assert!(layout.edges >= 15 * layout.vertices() as u64, "{layout:?}");
            assert!(layout.sources() > layout.vertices());
            assert!(layout.degrees() * 2 >= layout.sources() * 2 + layout.edges as usize);
            assert_eq!(layout.vector(1) - layout.vector(0), layout.vertices());
        }
        assert!(Layout::of_bytes(1000).is_err());
    }
}
