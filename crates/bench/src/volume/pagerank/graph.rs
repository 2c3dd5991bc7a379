//! An R-MAT graph, made in memory.

use super::layout::Layout;
use crate::rng::Rng;

/// Percent of the edges that go to each quarter of the matrix but the last, which gets what is left (Graph500).
const QUARTERS: [u64; 3] = [57, 19, 19];
/// Edges between two calls of the progress.
const TOLD_EVERY: u64 = 1 << 20;

/// Edges by destination.
pub struct Graph {
    layout: Layout,
    /// Where the edges of each destination begin; one more than there are vertices.
    begins: Vec<u64>,
    sources: Vec<u32>,
    degrees: Vec<u32>,
}

impl Graph {
    /// Makes it: once to count the edges of each destination, once more to put them there. `tell` gets percents.
    pub fn new(layout: Layout, seed: u64, tell: &mut dyn FnMut(u64)) -> Self {
        let mut begins = vec![0u64; layout.vertices() + 1];
        let mut degrees = vec![0u32; layout.vertices()];
        let total = 2 * layout.edges;
        let mut tell_at = |done: u64| {
            if done.is_multiple_of(TOLD_EVERY) {
                tell(done * 100 / total);
            }
        };
        let edges = Edges::new(layout, seed);
        for (done, (source, destination)) in (0..).zip(edges.clone()) {
            begins[destination as usize + 1] += 1;
            degrees[source as usize] += 1;
            tell_at(done);
        }
        for vertex in 0..layout.vertices() {
            begins[vertex + 1] += begins[vertex];
        }
        let mut next = begins.clone();
        let mut sources = vec![0; layout.edges as usize];
        for (done, (source, destination)) in (layout.edges..).zip(edges) {
            let place = &mut next[destination as usize];
            sources[*place as usize] = source;
            *place += 1;
            tell_at(done);
        }
        Self { layout, begins, sources, degrees }
    }

    /// A word of the file; the vectors are zeros.
    pub fn word(&self, index: usize) -> u64 {
        let pair = |halves: &[u32], at: usize| {
            let half = |at: usize| u64::from(halves.get(at).copied().unwrap_or(0));
            half(2 * at) | half(2 * at + 1) << 32
        };
        let layout = self.layout;
        if index < layout.sources() {
            self.begins.get(index).copied().unwrap_or(0)
        } else if index < layout.degrees() {
            pair(&self.sources, index - layout.sources())
        } else if index < layout.vector(0) {
            pair(&self.degrees, index - layout.degrees())
        } else {
            0
        }
    }
}

/// Edges one after the other, the same for each seed.
#[derive(Clone)]
struct Edges {
    left: u64,
    scale: u32,
    rng: Rng,
}

impl Edges {
    fn new(layout: Layout, seed: u64) -> Self {
        Self { left: layout.edges, scale: layout.scale, rng: Rng::new(seed) }
    }

    /// A number of the vertex that says nothing about how many edges it has: each step can be undone, so no two vertices get the same.
    fn renumber(&self, vertex: u64) -> u32 {
        let mask = (1 << self.scale) - 1;
        let mut vertex = vertex;
        for factor in [0x9E37_79B9_7F4A_7C15u64, 0xD6E8_FEB8_6659_FD93] {
            vertex = vertex.wrapping_mul(factor).wrapping_add(1) & mask;
            vertex ^= vertex >> (self.scale / 2);
        }
        vertex as u32
    }
}

impl Iterator for Edges {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (mut source, mut destination) = (0, 0);
        for _ in 0..self.scale {
            let drawn = self.rng.below(100);
            let quarter = match drawn {
                _ if drawn < QUARTERS[0] => 0,
                _ if drawn < QUARTERS[0] + QUARTERS[1] => 1,
                _ if drawn < QUARTERS[0] + QUARTERS[1] + QUARTERS[2] => 2,
                _ => 3,
            };
            source = source << 1 | quarter >> 1;
            destination = destination << 1 | quarter & 1;
        }
        Some((self.renumber(source), self.renumber(destination)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn edges_stand_by_destination_and_are_counted() {
        let layout = Layout::of_bytes(200 << 10).expect("room");
        let graph = Graph::new(layout, 7, &mut |percent| assert!(percent <= 100));
        let mut expected: Vec<(u32, u32)> =
            Edges::new(layout, 7).map(|(source, destination)| (destination, source)).collect();
        let mut found = Vec::new();
        for vertex in 0..layout.vertices() {
            for edge in graph.begins[vertex]..graph.begins[vertex + 1] {
                found.push((vertex as u32, graph.sources[edge as usize]));
            }
        }
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(graph.degrees.iter().map(|&degree| u64::from(degree)).sum::<u64>(), layout.edges);
        let hub = *graph.degrees.iter().max().expect("vertices");
        assert!(u64::from(hub) > 10 * layout.edges / layout.vertices() as u64, "no hubs: {hub}");
    }

    #[test]
    fn numbers_are_given_once() {
        let edges = Edges::new(Layout { scale: 11, edges: 0 }, 1);
        let numbers: BTreeSet<u32> = (0..1 << 11).map(|vertex| edges.renumber(vertex)).collect();
        assert_eq!(numbers.len(), 1 << 11);
    }
}
