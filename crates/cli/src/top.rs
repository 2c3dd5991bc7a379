//! `aquifer top`: a heap at work, as it happens.
//!
//! | file | noun |
//! |---|---|
//! | `live` | the loop: keys, answers and signals in, pictures out |
//! | `screen` | the terminal, borrowed and given back |
//! | `keys` | what keys mean |
//! | `state` | what the user chose, and the picture to show |
//! | `picture` | the last answer, rates and history |
//! | `rates` | what came on between two samples |
//! | `tiers` | how full RAM and flash are |
//! | `panel` | rows of numbers with titles |
//! | `histogram` | latencies as rows |
//! | `layout` | which panel stands where |
//! | `view` | panels drawn |
//! | `bar` | bars and sparks of block characters |
//! | `snapshot` | the same as plain text, once |

pub mod bar;
pub mod histogram;
pub mod keys;
pub mod layout;
mod live;
pub mod panel;
pub mod picture;
pub mod rates;
pub mod screen;
pub mod snapshot;
pub mod state;
pub mod tiers;
pub mod view;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use crate::arguments::TopArguments;
use crate::error::Error;
use crate::heap::Heap;

use picture::Picture;

/// Shows a heap at work until the user or the program ends; once, if nobody can watch.
///
/// # Errors
/// [`Error`] if the heap cannot be asked or nothing can be shown. A program that ends is no error.
pub fn top(arguments: &TopArguments) -> Result<ExitCode, Error> {
    let mut heap = Heap::of(&arguments.target, arguments.timeout)?;
    let picture = Picture::first(heap.measure()?);
    let pid = picture.now.sample.pid;
    let is_live = !arguments.once && io::stdout().is_terminal();
    let closed = if is_live {
        live::watch(heap, picture, arguments.interval)?
    } else {
        once(&mut heap, picture, arguments)?
    };
    if closed {
        eprintln!("process {pid} has closed its heap");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a snapshot with the rates of one interval; whether the heap was closed meanwhile.
fn once(heap: &mut Heap, mut picture: Picture, arguments: &TopArguments) -> Result<bool, Error> {
    std::thread::sleep(arguments.interval);
    let closed = match heap.measure() {
        Ok(next) => {
            picture.advance(next);
            false
        }
        Err(error) if error.means_closed() => true,
        Err(error) => return Err(error),
    };
    let mut out = io::stdout().lock();
    match write!(out, "{}", snapshot::snapshot(&picture)).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(closed),
        written => Ok(written.map(|()| closed)?),
    }
}
