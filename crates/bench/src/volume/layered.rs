//! One table against three: the volume beside a conventional stack with the same cache, the same way of faults into the process and the same
//! emulated flash.
//!
//! Each stack is filled once. Each cell begins with a snapshot of its flash, so no cell sees what another wrote, and the stacks take turns.
//!
//! | file | noun |
//! |---|---|
//! | `options`, `point`, `pattern` | what is measured |
//! | `contestant` | the stacks |
//! | `filled` | a stack's flash with the data on it |
//! | `mounted` | a stack in use |
//! | `measure` | one cell |
//! | `sample` | lines of results |

mod contestant;
mod filled;
mod measure;
mod mounted;
mod options;
mod pattern;
mod point;
pub mod sample;

use aquifer_base::units::format_size;

pub use contestant::Contestant;
pub use options::LayeredOptions;
pub use point::{Load, Speed};

use crate::error::{Error, Result};
use crate::machine::Context;
use crate::progress::Progress;
use crate::sample::{Output, Record};
use crate::table;
use filled::Filled;
use measure::Cell;
use mounted::Mounted;
use sample::Layered;

/// Measures every cell with every stack in turns, and prints the table.
///
/// # Errors
/// [`Error::Input`], [`Error::Unavailable`] without userfaultfd, [`Error::WrongData`].
pub fn run(options: &LayeredOptions) -> Result<()> {
    options.check()?;
    let points = options.points();
    let stacks = &options.stacks;
    let cells = points.len() as u64 * stacks.len() as u64 * u64::from(options.runs);
    let progress = Progress::new(cells + stacks.len() as u64);
    let mut output = Output::open(options.out.as_deref())?;
    let context = Context::with_files_on("emulated flash in memory");
    let mut filled: Vec<Filled> = Vec::new();
    for &stack in stacks {
        if !filled.iter().any(|filled| filled.serves(stack)) {
            progress.doing(format!("{stack}: writing {}", format_size(options.data)));
            filled.push(Filled::new(stack, options)?);
        }
        progress.step();
    }
    let mount = |stack: Contestant, ram_bytes| {
        let filled = filled.iter().find(|filled| filled.serves(stack)).expect("all were filled");
        Mounted::new(filled, stack, ram_bytes)
    };
    for &ratio in &options.ratios {
        for &stack in stacks {
            let ram_bytes = options.data / ratio;
            match mount(stack, ram_bytes) {
                Ok(mounted) => progress.note(&format!("{stack}: {}", mounted.division()?)),
                Err(Error::Unavailable(reason)) => {
                    progress.note(&format!("{stack} cannot run with {}: {reason}", format_size(ram_bytes)))
                }
                Err(error) => return Err(error),
            }
        }
    }
    let mut records = Vec::new();
    for run in 1..=options.runs {
        for (number, point) in points.iter().enumerate() {
            // Who comes first changes, so that what disturbs the machine disturbs all.
            let first = number + run as usize;
            for turn in 0..stacks.len() {
                let stack = stacks[(first + turn) % stacks.len()];
                progress.doing(format!("run {run}: {stack}, {point}"));
                let mounted = match mount(stack, point.ram_bytes(options.data)) {
                    Ok(mounted) => Some(mounted),
                    Err(Error::Unavailable(_)) => None,
                    Err(error) => return Err(error),
                };
                if let Some(mounted) = mounted {
                    let division = mounted.division()?;
                    let cell = Cell { options, point, stack, mounted };
                    let measured = cell.measure(run)?;
                    let (point, context) = (point.clone(), context.clone());
                    let (data_bytes, fill_percent) = (options.data, options.fill);
                    let sample =
                        Layered { run, stack, point, data_bytes, fill_percent, division, measured, context };
                    progress.note(&sample.summary());
                    let record = Record::Layered(Box::new(sample));
                    output.write(&record)?;
                    records.push(record);
                }
                progress.step();
            }
        }
    }
    progress.note(&table::render(&records));
    Ok(())
}
