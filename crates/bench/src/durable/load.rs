//! Threads that run transactions, and what these take.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::process::{cpu_ns, thread_cpu_ns};
use crate::study::Fields;

/// Transactions between two looks at the clock.
const CLOCK_EVERY: u64 = 64;

/// What transactions took.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ran {
    /// Transactions of each thread.
    pub transactions: Vec<u64>,
    /// Processor time of the process from the first begin until the system rests: threads of the system's own are included, with what
    /// they still did after the last end.
    cpu_ns: u64,
    /// The part of it that no thread with transactions had: a cleaner's.
    behind_ns: u64,
    /// From the first begin to the last end.
    wall_ns: u64,
    /// From the last end until the system rests.
    rest_ns: u64,
}

struct Timed {
    transactions: u64,
    begin: Instant,
    end: Instant,
    /// Processor time of the process until the begin.
    cpu_before_ns: u64,
    /// Processor time of the thread from begin to end.
    own_ns: u64,
}

impl Ran {
    /// Runs each of `steps` in a thread of its own again and again, for a number of transactions of all together, or until `limit`. What the system does behind
    /// their back until `rest` returns, it does for them.
    ///
    /// # Errors
    /// The first one of a step; those of `rest`.
    pub fn run<S: FnMut() -> Result<()> + Send>(
        steps: Vec<S>,
        transactions: u64,
        limit: Duration,
        rest: impl Fn() -> Result<()>,
    ) -> Result<Self> {
        let wanted = transactions / steps.len() as u64;
        let barrier = Barrier::new(steps.len());
        let parts = thread::scope(|scope| {
            let part = |step| {
                let barrier = &barrier;
                scope.spawn(move || part(step, wanted, limit, barrier))
            };
            let parts: Vec<_> = steps.into_iter().map(part).collect();
            parts.into_iter().map(|part| part.join().expect("it does not panic")).collect::<Result<Vec<_>>>()
        })?;
        // Looking whether it rests is not the system's work.
        let looking_since_ns = thread_cpu_ns();
        rest()?;
        let looked_ns = thread_cpu_ns() - looking_since_ns;
        let begin = parts.iter().map(|part| part.begin).min();
        let end = parts.iter().map(|part| part.end).max();
        let wall = end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin);
        let cpu_before_ns = parts.iter().map(|part| part.cpu_before_ns).min().unwrap_or(0);
        let cpu_ns = cpu_ns() - cpu_before_ns - looked_ns;
        Ok(Self {
            transactions: parts.iter().map(|part| part.transactions).collect(),
            cpu_ns,
            behind_ns: cpu_ns.saturating_sub(parts.iter().map(|part| part.own_ns).sum()),
            wall_ns: wall.as_nanos() as u64,
            rest_ns: end.map_or(0, |end| end.elapsed().as_nanos() as u64),
        })
    }

    /// Transactions of all threads.
    pub fn total(&self) -> u64 {
        self.transactions.iter().sum()
    }

    /// A part of a sum for each transaction.
    pub fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.total().max(1) as f64
    }

    /// Figures for each transaction, and transactions for each second of the clock and of processor time.
    pub fn figures(&self) -> Fields {
        Fields::default()
            .with("transactions", self.total())
            .with("cpu_ns", self.each(self.cpu_ns))
            .with("behind_ns", self.each(self.behind_ns))
            .with("wall_ns", self.each(self.wall_ns))
            .with("rest_ns", self.each(self.rest_ns))
            .with("per_s", 1e9 / self.each(self.wall_ns))
            .with("per_cpu_s", 1e9 / self.each(self.cpu_ns))
    }
}

/// Transactions of one thread.
fn part(
    mut step: impl FnMut() -> Result<()>,
    wanted: u64,
    limit: Duration,
    barrier: &Barrier,
) -> Result<Timed> {
    barrier.wait();
    let (begin, cpu_before_ns, own_before_ns) = (Instant::now(), cpu_ns(), thread_cpu_ns());
    let mut transactions = 0;
    while transactions < wanted && (transactions == 0 || begin.elapsed() < limit) {
        for _ in 0..CLOCK_EVERY.min(wanted - transactions) {
            step()?;
            transactions += 1;
        }
    }
    let (end, own_ns) = (Instant::now(), thread_cpu_ns() - own_before_ns);
    Ok(Timed { transactions, begin, end, cpu_before_ns, own_ns })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn no_threads() -> Result<()> {
        Ok(())
    }

    #[test]
    fn threads_share_the_transactions() {
        let mut counts = [0; 2];
        let steps = counts.iter_mut().map(|count| {
            move || {
                *count += 1;
                Ok(())
            }
        });
        let ran = Ran::run(steps.collect(), 1001, Duration::MAX, no_threads).expect("it cannot fail");
        assert_eq!((ran.total(), counts), (1000, [500, 500]));
        let ran = Ran::run(vec![|| Ok(())], 1000, Duration::ZERO, no_threads).expect("it cannot fail");
        assert_eq!(ran.total(), CLOCK_EVERY, "the limit ends them");
    }

    const BURNT_NS: u64 = 20_000_000;

    fn burn() {
        let begin = thread_cpu_ns();
        while thread_cpu_ns() - begin < BURNT_NS {}
    }

    #[test]
    fn threads_of_the_system_count() {
        for is_waited_for in [true, false] {
            let worker = Mutex::new(None);
            let rest = || {
                let worker: Option<thread::JoinHandle<()>> = worker.lock().expect("nobody panics").take();
                worker.map_or(Ok(()), |worker| {
                    worker.join().expect("it does not panic");
                    Ok(())
                })
            };
            let mut begun = false;
            let step = || {
                if !std::mem::replace(&mut begun, true) {
                    *worker.lock().expect("nobody panics") = Some(thread::spawn(burn));
                    if is_waited_for {
                        rest()?;
                    }
                }
                Ok(())
            };
            let ran = Ran::run(vec![step], 1000, Duration::MAX, rest).expect("it cannot fail");
            assert!(ran.cpu_ns >= BURNT_NS, "{} of {BURNT_NS} ns, waited for: {is_waited_for}", ran.cpu_ns);
            assert!(ran.behind_ns >= BURNT_NS / 2, "{ran:?}");
        }
    }
}
