//! Serves a device as a file in a folder.

use std::io::{self, Write};
use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::Arc;

use aquifer_base::units::format_size;
use aquifer_block::fuse::{FILE_NAME, Mounted, Options, Unmounter};
use aquifer_block::precautions::{self, Omitted};
use aquifer_block::source::{Source, device};
use aquifer_block::swaps::{Area, warn_when_swapped};

use super::arguments::BlockArguments;
use super::say;
use crate::ending::{self, Wish};
use crate::error::{Error, printable};

/// Serves until a signal, or until somebody unmounts the folder.
pub fn serve(
    arguments: &BlockArguments,
    source: &Source,
    folder: &Path,
    mut omitted: Vec<Omitted>,
) -> Result<ExitCode, Error> {
    let device = device(source, &say)?;
    let size = format_size(device.len_bytes());
    let flash = arguments.flash.display().to_string();
    let options = Options { source: flash.clone(), threads: arguments.threads.into() };
    let mounted = Mounted::new(device, folder, &options)?;
    end_by_signals(mounted.unmounter())?;
    omitted.extend(precautions::lock_memory(Mounted::later_bytes(&options)));
    warn_when_swapped(omitted, Area::Loop(mounted.file()), Arc::new(say));
    let file = folder.join(FILE_NAME);
    let file = file.display().to_string();
    writeln!(io::stdout(), "{} ({size}) is the file {}", printable(&flash), printable(&file))?;
    mounted.serve()?;
    Ok(ExitCode::SUCCESS)
}

/// The first signal unmounts, unless the file is in use; the second does not ask, unless it repeats the first one.
fn end_by_signals(unmounter: Unmounter) -> Result<(), Error> {
    let mut was_refused = false;
    ending::on_each_wish(move |wish| {
        if was_refused && wish == Wish::New {
            let outcome = unmounter.leave();
            if let Err(error) = &outcome {
                say(&error.to_string());
            }
            process::exit(i32::from(outcome.is_err()) * 2);
        }
        if (was_refused || wish == Wish::New)
            && let Err(error) = unmounter.unmount()
        {
            if wish == Wish::New {
                say(&error.to_string());
            }
            was_refused = true;
        }
    })
}
