//! How walks through a leaf are expected: a view of the leaf table.

use std::sync::atomic::Ordering;

use aquifer_base::LeafId;
use aquifer_map::LeafTable;

/// How walks through a leaf are expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Order {
    /// To be found out.
    Unknown = 0,
    Sequential = 1,
    Random = 2,
}

impl Order {
    pub(super) fn of(table: &LeafTable, leaf: LeafId) -> Self {
        match table.row(leaf).order.load(Ordering::Relaxed) {
            1 => Self::Sequential,
            2 => Self::Random,
            _ => Self::Unknown,
        }
    }

    pub(super) fn set(self, table: &LeafTable, leaf: LeafId) {
        table.row(leaf).order.store(self as u8, Ordering::Relaxed);
    }
}
