//! Telling threads apart cheaply.

/// Stripes that [`stripe`] chooses from.
pub const STRIPES: usize = 8;

/// A number below [`STRIPES`] that two threads seldom share, for data that would otherwise be written by all
/// processors in turn. A thread's number may change from call to call.
///
/// # Context
/// Signal-safe. Costs a few instructions: threads are told apart by where their stacks are.
pub fn stripe() -> usize {
    let here = 0u8;
    let stack = core::ptr::from_ref(&here) as usize >> 16;
    stack.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - STRIPES.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_spread_over_stripes() {
        let threads: Vec<_> =
            (0..64).map(|_| std::thread::spawn(|| (stripe(), std::thread::yield_now()).0)).collect();
        let mut seen = [0; STRIPES];
        threads.into_iter().for_each(|thread| seen[thread.join().expect("join")] += 1);
        assert_eq!(seen.iter().sum::<i32>(), 64);
    }
}
