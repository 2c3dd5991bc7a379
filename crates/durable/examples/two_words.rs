use aquifer_durable::*;
use std::time::Instant;
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or("/dev/shm/two".into()));
    let _ = std::fs::remove_file(&path);
    let options = Options { capacity_bytes: 4 << 30, ..Default::default() };
    let heap = DurableHeap::open(&path, &options).unwrap();
    const PAIRS: u64 = 65536;
    // one array object of 128 B per pair
    let homes: Vec<_> = (0..PAIRS).map(|_| heap.transaction(|tx| { let h = tx.alloc(128)?; tx.store(h, &[1; 128])?; Ok(h) }).unwrap()).collect();
    let mut rng = 88172645463325252u64;
    let n = 3_000_000u64;
    for round in 0..3 {
        let (f0, b0) = (heap.persist().counts().fences(), heap.persist().counts().bytes());
        let (c0, t0) = (cpu(), Instant::now());
        for _ in 0..n {
            rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17;
            let h = homes[(rng % PAIRS) as usize];
            heap.transaction(|tx| {
                let a = tx.load_u64(h)?;
                tx.store_u64(h, a + 1)?;
                let b = tx.load_u64(h.plus_bytes(64))?;
                tx.store_u64(h.plus_bytes(64), b - 1)
            }).unwrap();
        }
        let c = cpu() - c0;
        println!("round {round}: {:.1} ns CPU/tx, {:.1} ns wall, {:.3} fences/tx, {:.1} B/tx; {:?}", c / n as f64, t0.elapsed().as_nanos() as f64 / n as f64,
            (heap.persist().counts().fences() - f0) as f64 / n as f64, (heap.persist().counts().bytes() - b0) as f64 / n as f64, heap.usage());
    }
    std::fs::remove_file(&path).unwrap();
}
