//! How large objects are: mostly small.

use aquifer_base::random::Random;

/// What is allocated.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// One object, with its bytes.
    Object(usize),
    /// A number of objects, with the bytes of each, each on a page of its own.
    Array(usize, usize),
}

/// Bytes for `malloc` and `realloc`.
pub fn bytes(rng: &mut Random) -> usize {
    let (least, most) = match rng.below(10_000) {
        0..8_200 => (1, 256),
        8_200..9_600 => (257, 4096),
        9_600..9_960 => (4097, 32 << 10),
        9_960..9_999 => (32 << 10, 320 << 10),
        // Larger than half of a leaf's range: it gets leaves of its own.
        _ => (1 << 20, 5 << 19),
    };
    least + rng.below((most - least + 1) as u64) as usize
}

/// What a new object is.
pub fn request(rng: &mut Random) -> Request {
    if rng.below(1000) > 0 {
        return Request::Object(bytes(rng));
    }
    let count = 1 + rng.below(1100) as usize;
    let bytes = if rng.below(8) > 0 { 1 + rng.below(256) } else { 1 + rng.below(4096) };
    Request::Array(count, bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OBJECT_BYTES_MEAN;

    #[test]
    fn the_mean_is_what_it_says() {
        let mut rng = Random::new(1);
        let total: u64 = (0..200_000)
            .map(|_| match request(&mut rng) {
                Request::Object(bytes) => bytes as u64,
                Request::Array(count, bytes) => (count * bytes) as u64,
            })
            .sum();
        let mean = total / 200_000;
        assert!((OBJECT_BYTES_MEAN * 3 / 4..OBJECT_BYTES_MEAN * 5 / 4).contains(&mean), "{mean}");
    }
}
