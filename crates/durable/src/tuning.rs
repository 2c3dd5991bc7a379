//! Optimisations that can be switched off, so that what each gives can be measured (Hu et al., ATC 2017, evaluate theirs in the same way).

/// Which optimisations a heap has: all, unless one is switched off to see what it gives.
///
/// # Durability
/// The same with any of them: they change how much work a transaction is, not what it promises. The file is of the same format, and may be
/// opened with others the next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The hot-node cache: each session remembers where in the map it found 64 bytes of home space last. Off: each look of a
    /// transaction searches the extents of the partition. Hu et al.: +30.1 %.
    pub hot_nodes: bool,
    /// One half of the group update: neighbours in home space that a transaction writes become one entry of its block and one change of the
    /// map. Off: each write has an entry and a change of its own, but the cleaner's. Hu et al.: +42.3 % for both halves.
    pub merges_writes: bool,
    /// The other half: what a transaction writes waits in ordinary memory, and its commit persists all of it with one fence. Off: each
    /// entry is persisted on its own, the head of the block behind them, as where stores go to the log one by one. Without effect on
    /// commits that do not wait for durability, and on the cleaner.
    pub persists_once: bool,
    /// Extents of the map that lie side by side in home space and in the log are one. Off: each change adds its own, and the map takes
    /// more memory. Not in the paper.
    pub joins_extents: bool,
}

impl Tuning {
    /// All of them.
    pub const ALL: Self =
        Self { hot_nodes: true, merges_writes: true, persists_once: true, joins_extents: true };
    /// None of them.
    pub const NONE: Self =
        Self { hot_nodes: false, merges_writes: false, persists_once: false, joins_extents: false };
    /// All but one, each in turn.
    pub const WITHOUT_ONE: [Self; 4] = [
        Self { hot_nodes: false, ..Self::ALL },
        Self { merges_writes: false, ..Self::ALL },
        Self { persists_once: false, ..Self::ALL },
        Self { joins_extents: false, ..Self::ALL },
    ];
}

impl Default for Tuning {
    fn default() -> Self {
        Self::ALL
    }
}
