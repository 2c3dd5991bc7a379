//! Memory of a heap whose bytes follow from its address and a version, and random numbers from a seed.

/// An object, or an element of an array.
pub struct Object {
    pub address: *mut u8,
    pub bytes: usize,
    /// 0: zeros.
    pub version: u64,
}

// SAFETY: the tests give an object to one thread at a time.
unsafe impl Send for Object {}

impl Object {
    pub fn new(address: *mut u8, bytes: usize) -> Self {
        Self { address, bytes, version: 0 }
    }

    fn expected(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        if self.version > 0 {
            Rng::new(self.address as u64 ^ self.version << 48).fill(&mut bytes);
        }
        bytes
    }

    /// Gives all bytes new values.
    pub fn write(&mut self) {
        self.version += 1;
        let expected = self.expected();
        // SAFETY: the object has that many bytes, and only this thread uses it.
        unsafe { std::ptr::copy_nonoverlapping(expected.as_ptr(), self.address, self.bytes) };
    }

    /// Whether all bytes are what they should be.
    pub fn is_right(&self) -> bool {
        // SAFETY: the object has that many bytes, all initialised, and only this thread uses it.
        let got = unsafe { std::slice::from_raw_parts(self.address, self.bytes) };
        got == self.expected()
    }

    #[track_caller]
    pub fn check(&self) {
        assert!(self.is_right(), "{} bytes at {:p}, version {}", self.bytes, self.address, self.version);
    }
}

/// xorshift64* (Vigna 2016).
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to `bound - 1`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.word()) * bound as u128) >> 64) as usize
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        for part in out.chunks_mut(8) {
            part.copy_from_slice(&self.word().to_le_bytes()[..part.len()]);
        }
    }
}
