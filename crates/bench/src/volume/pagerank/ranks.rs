//! The iterations.
//!
//! A vector holds, for each vertex, its rank divided among its edges, which is what its neighbours read; after the last iteration it holds the
//! ranks themselves. What vertices without edges have is divided among all (Page et al. 1999).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::layout::Layout;
use crate::rng::mix;

const DAMPING: f64 = 0.85;
/// Vertices that a thread takes at once, and whose leftovers are summed together.
const BLOCK: usize = 4096;

/// Graph and vectors in one array of words.
#[derive(Clone, Copy)]
pub struct Ranks<'a> {
    /// All sections.
    pub words: &'a [AtomicU64],
    /// Where they are.
    pub layout: Layout,
    /// How many work on it.
    pub threads: u32,
    /// When to stop, in the middle of an iteration.
    pub end: Instant,
    /// Edges that iterations went along.
    pub edges: &'a AtomicU64,
}

impl Ranks<'_> {
    fn half(&self, section: usize, index: usize) -> u32 {
        let word = self.words[section + index / 2].load(Ordering::Relaxed);
        (word >> (32 * (index % 2))) as u32
    }

    fn degree(&self, vertex: usize) -> u32 {
        self.half(self.layout.degrees(), vertex)
    }

    fn store(&self, which: usize, vertex: usize, value: f64) {
        self.words[self.layout.vector(which) + vertex].store(value.to_bits(), Ordering::Relaxed);
    }

    fn load(&self, which: usize, vertex: usize) -> f64 {
        f64::from_bits(self.words[self.layout.vector(which) + vertex].load(Ordering::Relaxed))
    }

    /// Gives every vertex the same rank; what those without edges have together.
    pub fn begin(&self) -> f64 {
        let rank = 1.0 / self.layout.vertices() as f64;
        self.blocks(&|vertex| self.put(0, vertex, rank, false), &|_| ())
    }

    /// One iteration, into the vector that was not written last. `leftover` is what the one before gave, and this gives it again.
    pub fn iterate(&self, iteration: u32, leftover: f64, is_last: bool) -> f64 {
        let (from, to) = (iteration as usize % 2, (iteration as usize + 1) % 2);
        let count = self.layout.vertices() as f64;
        let base = (1.0 - DAMPING) / count + DAMPING * leftover / count;
        let update = |vertex: usize| {
            let begin = self.words[vertex].load(Ordering::Relaxed) as usize;
            let end = self.words[vertex + 1].load(Ordering::Relaxed) as usize;
            let sources = (begin..end).map(|edge| self.half(self.layout.sources(), edge) as usize);
            let sum: f64 = sources.map(|source| self.load(from, source)).sum();
            self.put(to, vertex, base + DAMPING * sum, is_last)
        };
        self.blocks(&update, &|vertices| {
            let begin = |vertex: usize| self.words[vertex].load(Ordering::Relaxed);
            self.edges.fetch_add(begin(vertices.end) - begin(vertices.start), Ordering::Relaxed);
        })
    }

    /// Stores a rank; what of it goes to all.
    fn put(&self, which: usize, vertex: usize, rank: f64, is_last: bool) -> f64 {
        match self.degree(vertex) {
            _ if is_last => self.store(which, vertex, rank),
            0 => {
                self.store(which, vertex, 0.0);
                return rank;
            }
            degree => self.store(which, vertex, rank / f64::from(degree)),
        }
        0.0
    }

    /// Calls `update` for all vertices, from several threads, and adds up what it gives in an order that does not depend on them. `done` is told
    /// of each block.
    fn blocks(&self, update: &(dyn Fn(usize) -> f64 + Sync), done: &(dyn Fn(Range<usize>) + Sync)) -> f64 {
        let sums: Vec<AtomicU64> =
            (0..self.layout.vertices().div_ceil(BLOCK)).map(|_| AtomicU64::default()).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    loop {
                        let block = next.fetch_add(1, Ordering::Relaxed);
                        let Some(sum) = sums.get(block).filter(|_| !self.is_over()) else { break };
                        let end = self.layout.vertices().min((block + 1) * BLOCK);
                        let of_block: f64 = (block * BLOCK..end).map(update).sum();
                        sum.store(of_block.to_bits(), Ordering::Relaxed);
                        done(block * BLOCK..end);
                    }
                });
            }
        });
        sums.iter().map(|sum| f64::from_bits(sum.load(Ordering::Relaxed))).sum()
    }

    /// Whether it is time to stop; what was computed last is not whole then.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Sum of the ranks, which is one, and a digest of all of them, after `iterations`.
    pub fn total(&self, iterations: u32) -> (f64, u64) {
        let which = iterations as usize % 2;
        let ranks = (0..self.layout.vertices()).map(|vertex| self.load(which, vertex));
        ranks.fold((0.0, 0), |(sum, digest), rank| (sum + rank, mix(digest ^ rank.to_bits())))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::graph::Graph;
    use super::*;

    /// The textbook's loop over all edges, on vectors of its own.
    fn expected(words: &[u64], layout: Layout, iterations: u32) -> Vec<f64> {
        let count = layout.vertices();
        let half = |section: usize, at: usize| (words[section + at / 2] >> (32 * (at % 2))) as u32 as usize;
        let mut ranks = vec![1.0 / count as f64; count];
        for _ in 0..iterations {
            let is_sink = |vertex: &usize| half(layout.degrees(), *vertex) == 0;
            let leftover: f64 = (0..count).filter(is_sink).map(|vertex| ranks[vertex]).sum();
            let mut next = vec![(1.0 - DAMPING + DAMPING * leftover) / count as f64; count];
            for (vertex, rank) in next.iter_mut().enumerate() {
                for edge in words[vertex]..words[vertex + 1] {
                    let source = half(layout.sources(), edge as usize);
                    *rank += DAMPING * ranks[source] / half(layout.degrees(), source) as f64;
                }
            }
            ranks = next;
        }
        ranks
    }

    #[test]
    fn ranks_are_those_of_the_textbook_with_any_number_of_threads() {
        let layout = Layout::of_bytes(1 << 20).expect("room");
        let graph = Graph::new(layout, 3, &mut |_| ());
        let image: Vec<u64> = (0..layout.vector(2)).map(|index| graph.word(index)).collect();
        for iterations in [1, 2, 5] {
            let expected = expected(&image, layout, iterations);
            let mut digests = Vec::new();
            for threads in [1, 3] {
                let words: Vec<AtomicU64> = image.iter().map(|&word| AtomicU64::new(word)).collect();
                let (end, edges) = (Instant::now() + Duration::from_secs(600), AtomicU64::new(0));
                let ranks = Ranks { words: &words, layout, threads, end, edges: &edges };
                let mut leftover = ranks.begin();
                for iteration in 0..iterations {
                    leftover = ranks.iterate(iteration, leftover, iteration + 1 == iterations);
                }
                assert_eq!(edges.load(Ordering::Relaxed), layout.edges * u64::from(iterations));
                let (sum, digest) = ranks.total(iterations);
                assert!((sum - 1.0).abs() < 1e-9, "{sum}");
                for (vertex, &rank) in expected.iter().enumerate() {
                    let found = ranks.load(iterations as usize % 2, vertex);
                    assert!((found - rank).abs() < 1e-12, "{vertex}: {found}, expected {rank}");
                }
                digests.push(digest);
            }
            assert_eq!(digests[0], digests[1]);
        }
    }

    #[test]
    fn when_the_time_is_over_no_edges_are_looked_at() {
        let layout = Layout::of_bytes(1 << 20).expect("room");
        let words: Vec<AtomicU64> = (0..layout.vector(2)).map(|_| AtomicU64::new(0)).collect();
        let (end, edges) = (Instant::now(), AtomicU64::new(0));
        let ranks = Ranks { words: &words, layout, threads: 2, end, edges: &edges };
        ranks.iterate(0, 0.0, false);
        assert!(ranks.is_over());
        assert_eq!(words[layout.vector(1)].load(Ordering::Relaxed), 0, "a rank was stored");
    }
}
