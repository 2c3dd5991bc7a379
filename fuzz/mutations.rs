//! Inputs for parsers: random bytes, and valid inputs that were damaged. The same ones in every run.

/// Longest input that is made.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// One input in this many is made of random bytes alone.
const RANDOM_EVERY: u64 = 8;
/// Numbers that lie at the limits of what parsers count with.
const EDGES: [u64; 10] = [0, 1, 0x7F, 0x80, 0xFF, 0xFFF, 0x1000, 0xFFFF, u32::MAX as u64, u64::MAX];

/// Runs `property` on each sample as it is, and on `count` inputs made from them.
///
/// # Panics
/// When the property does; the input is printed then.
pub fn drive(samples: &[Vec<u8>], count: u64, property: fn(&[u8])) {
    let check = |input: &[u8]| {
        let shown = Shown(input);
        property(input);
        drop(shown);
    };
    samples.iter().for_each(|sample| check(sample));
    if let Some(folder) = std::env::var_os("AQUIFER_SAMPLES") {
        write_samples(std::path::Path::new(&folder), samples);
    }
    let mut inputs = Inputs { samples, state: 0x5EED };
    (0..count).for_each(|_| check(&inputs.next()));
}

/// Writes samples for a fuzzer to begin with, which finds no valid input by itself where a checksum or a length must agree.
fn write_samples(folder: &std::path::Path, samples: &[Vec<u8>]) {
    std::fs::create_dir_all(folder).expect("a folder for samples");
    for (nth, sample) in samples.iter().enumerate() {
        std::fs::write(folder.join(format!("sample-{nth:03}")), sample).expect("a sample");
    }
}

/// Prints an input when its property panics.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failing input, {} bytes: {:?}", self.0.len(), self.0);
        }
    }
}

struct Inputs<'a> {
    samples: &'a [Vec<u8>],
    state: u64,
}

impl Inputs<'_> {
    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `end`; 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.random() % end as u64) as usize }
    }

    fn next(&mut self) -> Vec<u8> {
        if self.samples.is_empty() || self.random().is_multiple_of(RANDOM_EVERY) {
            let len = self.below(600);
            return (0..len).map(|_| self.random() as u8).collect();
        }
        let which = self.below(self.samples.len());
        let mut input = self.samples[which].clone();
        for _ in 0..=self.below(6) {
            self.damage(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn damage(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len());
        match self.random() % 8 {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.random() as u8,
            2 => input.insert(at, self.random() as u8),
            3 => input.truncate(at),
            4 => drop(input.drain(at..self.end_near(at, input.len()))),
            5 => {
                let copied = input[at..self.end_near(at, input.len())].to_vec();
                let to = self.below(input.len());
                input.splice(to..to, copied);
            }
            6 => {
                let other = self.below(self.samples.len());
                let from = self.below(self.samples[other].len());
                input.truncate(at);
                input.extend_from_slice(&self.samples[other][from..]);
            }
            _ => {
                let edge = EDGES[self.below(EDGES.len())].to_le_bytes();
                let width = (1 << self.below(4)).min(input.len() - at);
                input[at..at + width].copy_from_slice(&edge[..width]);
            }
        }
    }

    fn end_near(&mut self, at: usize, len: usize) -> usize {
        at + self.below((len - at).min(64) + 1)
    }
}
