//! Which segment is cleaned next.

use crate::geometry::SegmentId;
use crate::record::Kind;
use crate::segment::{SegmentTable, State};

/// Chooses among sealed segments.
pub trait VictimPolicy: Send + Sync {
    /// Published name.
    fn name(&self) -> &'static str;
    /// How much it is worth to clean a segment of which the share `utilisation` (0 to 1) is live and that
    /// was sealed `age` seals ago. The segment with the largest worth is cleaned.
    fn worth(&self, utilisation: f64, age: u32) -> f64;
}

/// The segment with the least live data; the best choice under uniform writes.
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn worth(&self, utilisation: f64, _age: u32) -> f64 {
        1.0 - utilisation
    }
}

/// Free space gained times its likely stability, by the cost of reading and writing back
/// (Rosenblum and Ousterhout 1992, section 3.6): `(1 - u) * age / (1 + u)`.
pub struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn worth(&self, utilisation: f64, age: u32) -> f64 {
        (1.0 - utilisation) * f64::from(age.max(1)) / (1.0 + utilisation)
    }
}

/// Utilisation for the choice: segments of leaves count as fuller than they are, unless they are empty.
///
/// Their garbage grows many times faster than that of pages, so waiting a little saves most of their copying, and they are
/// so few that the room it takes hardly matters. Measured in `docs/adr/0012-leaves-in-segments-of-their-own.md`.
fn counted_utilisation(utilisation: f64, kind: Kind) -> f64 {
    match kind {
        Kind::Page | Kind::Whole => utilisation,
        Kind::Leaf => 1.0 - (1.0 - utilisation).powi(2),
    }
}

/// The sealed segment that `policy` values most; `None` if no sealed segment has any garbage. `room` is how many bytes
/// records of a kind can take of a segment.
pub fn choose(
    policy: &dyn VictimPolicy,
    table: &SegmentTable,
    room: impl Fn(Kind) -> usize,
    now: u32,
) -> Option<SegmentId> {
    table
        .in_state(State::Sealed)
        .filter(|&id| (table.live_bytes(id) as usize) < room(table.kind(id)))
        .map(|id| {
            let utilisation = f64::from(table.live_bytes(id)) / room(table.kind(id)) as f64;
            let utilisation = counted_utilisation(utilisation, table.kind(id));
            (id, policy.worth(utilisation, now.wrapping_sub(table.sealed_at(id))))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SegmentTable {
        let table = SegmentTable::new(3);
        for (n, live) in [(0, 900), (1, 300), (2, 310)] {
            table.add_live(SegmentId(n), live);
        }
        table.seal(SegmentId(0), 1);
        table.seal(SegmentId(1), 9);
        table.seal(SegmentId(2), 5);
        table
    }

    #[test]
    fn greedy_takes_the_emptiest() {
        assert_eq!(choose(&Greedy, &table(), |_| 1000, 10), Some(SegmentId(1)));
    }

    #[test]
    fn cost_benefit_prefers_the_older_of_two_alike() {
        assert_eq!(choose(&CostBenefit, &table(), |_| 1000, 10), Some(SegmentId(2)));
    }

    #[test]
    fn garbage_of_leaves_may_wait_for_more() {
        let table = SegmentTable::new(4);
        for (n, kind, live) in [(0, Kind::Page, 600), (1, Kind::Leaf, 500), (2, Kind::Leaf, 0)] {
            table.next_generation(SegmentId(n), kind);
            table.add_live(SegmentId(n), live);
        }
        table.seal(SegmentId(0), 1);
        table.seal(SegmentId(1), 1);
        assert_eq!(choose(&Greedy, &table, |_| 1000, 5), Some(SegmentId(0)));
        table.subtract_live(SegmentId(1), 200);
        assert_eq!(choose(&Greedy, &table, |_| 1000, 5), Some(SegmentId(1)));
        table.seal(SegmentId(2), 1);
        assert_eq!(choose(&Greedy, &table, |_| 1000, 5), Some(SegmentId(2)));
    }

    #[test]
    fn what_no_record_can_take_is_no_garbage() {
        let table = SegmentTable::new(2);
        table.next_generation(SegmentId(0), Kind::Whole);
        table.add_live(SegmentId(0), 900);
        table.seal(SegmentId(0), 1);
        let room = |kind| if kind == Kind::Whole { 900 } else { 1000 };
        assert_eq!(choose(&Greedy, &table, room, 5), None);
        table.add_live(SegmentId(1), 950);
        table.seal(SegmentId(1), 1);
        assert_eq!(choose(&Greedy, &table, room, 5), Some(SegmentId(1)));
    }

    #[test]
    fn a_full_segment_is_no_victim() {
        let table = SegmentTable::new(1);
        table.add_live(SegmentId(0), 1000);
        table.seal(SegmentId(0), 0);
        assert_eq!(choose(&Greedy, &table, |_| 1000, 5), None);
    }
}
