//! What every transport does.

use aquifer_remote::transport::{Link, Place, Read, Write};

/// Bytes that no two places share.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let word = |n: usize| (seed ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..len.div_ceil(8)).flat_map(word).take(len).collect()
}

/// Runs all that a good transport passes, on a slab of at least 4 MiB.
pub fn keeps_its_word(link: &Link, slab: Place) {
    reads_what_was_written(link, slab);
    transfers_many(link, slab);
    serves_many_threads(link, slab);
}

fn reads_what_was_written(link: &Link, slab: Place) {
    for (seed, len) in [0, 1, 7, 512, 4096, 4097, 128 << 10, (128 << 10) + 1, 1 << 20].into_iter().enumerate()
    {
        let bytes = pattern(seed as u64, len);
        link.write(&bytes, slab.at(100)).expect("write");
        let mut got = vec![0; len];
        link.read(slab.at(100), &mut got).expect("read");
        assert!(got == bytes, "{len} bytes differ");
    }
    let mut nothing = [];
    link.read_many(&mut []).expect("none");
    link.read(slab, &mut nothing).expect("nothing");
}

fn transfers_many(link: &Link, slab: Place) {
    let pages: Vec<_> = (0..500).map(|n| pattern(n, 4096)).collect();
    let to = |n: usize| slab.at(4096 * n as u64);
    let writes: Vec<_> = pages.iter().enumerate().map(|(n, from)| Write { from, to: to(n) }).collect();
    link.write_many(&writes).expect("write");
    let mut got = vec![vec![0; 4096]; pages.len()];
    let mut reads: Vec<_> =
        got.iter_mut().enumerate().map(|(n, page)| Read { from: to(n), to: page }).collect();
    link.read_many(&mut reads).expect("read");
    assert!(got == pages);
}

fn serves_many_threads(link: &Link, slab: Place) {
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            scope.spawn(move || {
                let place = slab.at(thread * (256 << 10));
                let mut got = vec![0; 200 << 10];
                for round in 0..200 {
                    let len = if round % 10 == 0 { got.len() } else { 4096 };
                    let bytes = pattern(thread << 32 | round, len);
                    link.write(&bytes, place).expect("write");
                    link.read(place, &mut got[..len]).expect("read");
                    assert!(got[..len] == bytes, "thread {thread}, round {round}");
                }
            });
        }
    });
}
