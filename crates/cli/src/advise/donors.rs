//! How long a page of a donor takes, measured.

use std::time::{Duration, Instant};

use aquifer_probe::advice::Lender;
use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::far::{Home, Slabs};

use crate::advise::arguments::AdviseArguments;
use crate::error::Error;
use crate::remote::security;

const PAGE_BYTES: usize = 4096;
/// Bytes of a slab that are read in turns.
const MEASURED_BYTES: u64 = 8 << 20;
/// Reads, and how long they may take together.
const READS: usize = 2000;
const LIMIT: Duration = Duration::from_secs(5);
/// Reads that do not count.
const WARMUP: usize = 200;
/// Steps from page to page: without a common divisor with any number of pages that is a power of two.
const STEP: u64 = 7919;

/// The donors that were named, and the one that was thought of.
///
/// # Errors
/// A donor cannot be reached or lends nothing.
pub(super) fn lenders(arguments: &AdviseArguments) -> Result<Vec<Lender>, Error> {
    let mut lenders = Vec::new();
    for donor in &arguments.donors {
        let options = BorrowerOptions {
            donors: vec![donor.clone()],
            donors_only: true,
            security: security(arguments.cluster.as_deref())?,
            ..BorrowerOptions::default()
        };
        lenders.push(measured(donor, options)?);
    }
    let thought_of = arguments.latency.map(|latency| {
        let (name, source) = ("such a donor".to_owned(), "--latency".to_owned());
        Lender { name, read_us: latency.as_secs_f64() * 1e6, source }
    });
    lenders.extend(thought_of);
    Ok(lenders)
}

fn measured(donor: &str, options: BorrowerOptions) -> Result<Lender, Error> {
    let failed = |what: String| Error::Remote(format!("{donor} was not measured: {what}"));
    let borrower = Borrower::start(options).map_err(|error| failed(error.to_string()))?;
    let home = borrower.find(borrower.slab_bytes(), &[]);
    let home = home.ok_or_else(|| {
        failed("it lends no slab now; aquifer donors shows what it has free, and to its own machine it lends with --lend-to-own-machine".into())
    })?;
    let bytes = borrower.slab_bytes().min(MEASURED_BYTES);
    let mut times = read_all(&home, bytes).map_err(|error| failed(error.to_string()))?;
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    let source = format!(
        "median of {} reads, 90 % within {:.0} us, over {}",
        times.len(),
        at(90),
        home.link().provider()
    );
    Ok(Lender { name: donor.to_owned(), read_us: at(50), source })
}

/// How long each of many reads took, one after the other. All pages were written before, so that the donor has memory for them.
fn read_all(home: &Home, bytes: u64) -> Result<Vec<Duration>, aquifer_remote::transport::LinkError> {
    let mut page = [0xA5; PAGE_BYTES];
    let pages = bytes / PAGE_BYTES as u64;
    for n in 0..pages {
        home.write(&page, n * PAGE_BYTES as u64)?;
    }
    let (mut times, began) = (Vec::with_capacity(READS), Instant::now());
    for n in 0..(WARMUP + READS) as u64 {
        let before = Instant::now();
        home.read(n * STEP % pages * PAGE_BYTES as u64, &mut page)?;
        times.push(before.elapsed());
        if began.elapsed() > LIMIT {
            break;
        }
    }
    // All of them count if there are few.
    times.drain(..WARMUP.min(times.len() / 2));
    Ok(times)
}
