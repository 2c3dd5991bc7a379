//! What switching an optimisation off changes: work, not results.

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Options, Tuning};

/// Fences and bytes of a transaction that writes two neighbours, and a word far away from them.
fn written(tuning: Tuning) -> (u64, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        capacity_bytes: 64 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        cleans_ahead: false,
        tuning,
        ..Options::default()
    };
    let heap = DurableHeap::open(&dir.path().join("heap"), &options).expect("opens");
    let home = heap.transaction(|tx| tx.alloc(4096)).expect("room");
    let words = [(0, 1), (8, 2), (2048, 3)];
    let at = |offset| -> HomeAddress { home.plus_bytes(offset) };
    let counts = heap.persist().counts();
    let (fences, bytes) = (counts.fences(), counts.bytes());
    let stored = heap.transaction(|tx| words.iter().try_for_each(|&(to, word)| tx.store_u64(at(to), word)));
    stored.expect("allocated");
    let after = (counts.fences() - fences, counts.bytes() - bytes);
    for (from, word) in words {
        assert_eq!(heap.transaction(|tx| tx.load_u64(at(from))).expect("allocated"), word);
    }
    after
}

#[test]
fn each_switch_changes_what_it_says() {
    let (fences, bytes) = written(Tuning::ALL);
    assert_eq!(fences, 1);
    let [hot_nodes, merges_writes, persists_once, joins_extents] = Tuning::WITHOUT_ONE.map(written);
    assert_eq!((hot_nodes, joins_extents), ((1, bytes), (1, bytes)), "the log is the same");
    assert_eq!(persists_once, (3, bytes), "two entries and the head of the block");
    assert!(merges_writes.0 == 1 && merges_writes.1 > bytes, "an entry more: {merges_writes:?}, {bytes}");
    assert_eq!(written(Tuning::NONE), (4, merges_writes.1));
}
