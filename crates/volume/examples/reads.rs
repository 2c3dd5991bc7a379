use aquifer_volume::{Ino, Kind, OpenOptions, Protection, Volume, image};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
fn main() {
    let path = std::path::Path::new("/var/tmp/vol.dat");
    let len: usize = 2 << 30;
    if !path.exists() {
        let medium = image::new_medium(path, 3 << 30, 0).unwrap();
        Volume::create(medium, (0, 0)).unwrap();
        let volume = Volume::open(
            image::open_medium(path).unwrap(),
            OpenOptions { ram_bytes: 256 << 20, is_read_only: false },
        )
        .unwrap();
        let ino = volume.make(Ino::ROOT_FOLDER, b"data", Kind::File, 0o600, 0, 0).unwrap();
        let mut x = 88172645463325252u64;
        let mut block = vec![0u8; 1 << 20];
        for at in 0..len / block.len() {
            for c in block.chunks_exact_mut(8) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                c.copy_from_slice(&x.to_le_bytes());
            }
            volume.write(ino, (at * block.len()) as u64, &block).unwrap();
        }
        volume.close().unwrap();
    }
    let threads: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let ram: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let volume = Arc::new(
        Volume::open(
            image::open_medium(path).unwrap(),
            OpenOptions { ram_bytes: ram << 20, is_read_only: false },
        )
        .unwrap(),
    );
    let ino = volume.lookup(Ino::ROOT_FOLDER, b"data").unwrap();
    let mapping = volume.map(ino, 0, len, Protection::Read).unwrap();
    let base = mapping.as_ptr() as usize;
    let stop = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for t in 0..threads {
            let (stop, total) = (&stop, &total);
            scope.spawn(move || {
                let mut s = (t as u64 + 1) * 7919 + 12345;
                let mut n = 0;
                let mut sink = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    s ^= s << 13;
                    s ^= s >> 7;
                    s ^= s << 17;
                    sink = sink.wrapping_add(unsafe {
                        ((base + (s as usize % (len / 4096)) * 4096) as *const u64).read_volatile()
                    });
                    n += 1;
                }
                std::hint::black_box(sink);
                total.fetch_add(n, Ordering::Relaxed);
            });
        }
        std::thread::sleep(std::time::Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
    let secs = start.elapsed().as_secs_f64();
    let n = total.load(Ordering::Relaxed);
    let mut r: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut r) };
    let cpu = (r.ru_utime.tv_sec + r.ru_stime.tv_sec) as f64
        + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) as f64 / 1e6;
    println!("{threads} threads: {:.0} reads/s, cpu {:.1} us/read", n as f64 / secs, cpu * 1e6 / n as f64);
}
