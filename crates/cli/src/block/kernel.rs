//! Serves a device as a block device of this kernel.

use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use aquifer_base::units::format_size;
use aquifer_block::precautions::{self, Omitted};
use aquifer_block::source::{Source, device};
use aquifer_block::swaps::{Area, warn_when_swapped};
use aquifer_block::ublk::{Options, Shown, UblkError};

use super::arguments::BlockArguments;
use super::say;
use crate::ending::{self, Wish};
use crate::error::{Error, printable};

/// What ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// SIGINT or SIGTERM.
    Signal(Wish),
    /// Somebody else has taken the device away.
    Gone,
}

/// Serves until a signal.
pub fn serve(
    arguments: &BlockArguments,
    source: &Source,
    mut omitted: Vec<Omitted>,
) -> Result<ExitCode, Error> {
    let device = device(source, &say)?;
    let size = format_size(device.len_bytes());
    let (happened, events) = channel();
    let is_ending = Arc::new(AtomicBool::new(false));
    tell_of_signals(happened.clone(), Arc::clone(&is_ending))?;
    let on_gone = move || happened.send(Event::Gone).unwrap_or_default();
    let options = Options { threads: arguments.threads, report: Arc::new(say), on_gone: Arc::new(on_gone) };
    let shown = Shown::new(device, &options)?;
    omitted.extend(precautions::lock_memory(0));
    warn_when_swapped(omitted, Area::Device(shown.path().to_owned()), Arc::new(say));
    writeln!(
        io::stdout(),
        "{} ({size}) is the block device {}",
        printable(&arguments.flash.display().to_string()),
        shown.path().display()
    )?;
    let event = wait(&events, &shown);
    let path = shown.path().to_owned();
    is_ending.store(true, SeqCst);
    shown.end()?;
    if event == Event::Gone { Err(UblkError::Gone(path).into()) } else { Ok(ExitCode::SUCCESS) }
}

/// Waits for what ends it. The first signal does not while something uses the device, the second does not ask, unless it repeats the first one.
fn wait(events: &Receiver<Event>, shown: &Shown) -> Event {
    let mut was_refused = false;
    loop {
        let event = events.recv().unwrap_or(Event::Gone);
        let Event::Signal(wish) = event else { return event };
        if was_refused && wish == Wish::New {
            return event;
        }
        match shown.check_unused() {
            Ok(()) => return event,
            Err(error) if wish == Wish::New => say(&error.to_string()),
            Err(_) => {}
        }
        was_refused = true;
    }
}

/// Signals are events until it ends. Then one more ends the process: the device may be one that never answers.
fn tell_of_signals(happened: Sender<Event>, is_ending: Arc<AtomicBool>) -> Result<(), Error> {
    ending::on_each_wish(move |wish| {
        if is_ending.load(SeqCst) && wish == Wish::New {
            say("ended at once: what was not flushed may be lost");
            process::exit(2);
        }
        happened.send(Event::Signal(wish)).unwrap_or_default();
    })
}
