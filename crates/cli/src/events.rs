//! `aquifer stats --events`: what became of slabs and donors.

use std::fmt::Write as _;
use std::io::{self, Write};

use aquifer_volume::Time;
use serde::{Deserialize, Serialize};

use crate::arguments::StatsArguments;
use crate::error::{Error, printable};
use crate::heap::Heap;
use crate::volume::show::moment;

/// Columns of a donor's address.
const ADDRESS_COLUMNS: usize = 22;

/// What a heap noted of late.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Events {
    /// Events since the heap was opened; the number of the next one.
    pub noted: u64,
    /// The events that are kept, the oldest first.
    pub kept: Vec<Event>,
}

/// What happened to a slab or a donor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Counted from 0.
    pub number: u64,
    /// Since the heap was opened.
    pub after_ms: u64,
    /// Since 1970, by the machine's clock.
    pub unix_ms: u64,
    /// One of few words, such as `slab_lent`.
    pub what: String,
    /// Host and port of the donor.
    pub donor: Option<String>,
    /// Which part of the device, counted from 0.
    pub part: Option<u64>,
    /// Why, if something went wrong.
    pub why: Option<String>,
}

impl Event {
    /// A line without its end and without control characters.
    pub fn line(&self) -> String {
        let seconds = self.after_ms / 1000;
        let unix_ns = i64::try_from(self.unix_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let donor = printable(self.donor.as_deref().unwrap_or("-"));
        let what = printable(&self.what).replace('_', " ");
        let time = format!("{}Z  {seconds:>7}.{:03} s", moment(Time(unix_ns)), self.after_ms % 1000);
        let mut line = format!("{time}  {donor:<ADDRESS_COLUMNS$}  {what:<17}");
        if let Some(part) = self.part {
            let _ = write!(line, "  part {part}");
        }
        if let Some(why) = &self.why {
            let _ = write!(line, "  {}", printable(why));
        }
        line.trim_end().to_owned()
    }
}

/// Prints what a heap noted; with `--interval`, then what it notes until it is closed.
///
/// # Errors
/// [`Error`] if the heap cannot be asked, or borrows nothing. A watched program that ends is no error.
pub fn events(heap: &mut Heap, arguments: &StatsArguments) -> Result<(), Error> {
    let (pid, events) = heap.events()?;
    let mut process = pid;
    let mut next = show(&events, 0, arguments.json)?;
    let Some(period) = arguments.interval else { return Ok(()) };
    loop {
        std::thread::sleep(period);
        let (pid, events) = match heap.events() {
            Ok(answer) => answer,
            Err(error) if error.means_closed() => {
                eprintln!("process {process} has closed its heap");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // Another process, or another heap of it, counts anew.
        if pid != process || events.noted < next {
            (process, next) = (pid, 0);
        }
        next = show(&events, next, arguments.json)?;
    }
}

/// Prints events from this number on; returns the number of the next one.
fn show(events: &Events, from: u64, is_json: bool) -> Result<u64, Error> {
    let mut out = io::stdout().lock();
    let oldest = events.kept.first().map_or(events.noted, |event| event.number);
    if oldest > from && !is_json {
        writeln!(out, "{} earlier events are not kept", oldest - from)?;
    }
    for event in events.kept.iter().filter(|event| event.number >= from) {
        if is_json {
            serde_json::to_writer(&mut out, event).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", event.line())?;
        }
    }
    out.flush()?;
    Ok(events.noted.max(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event {
            number: 3,
            after_ms: 61_002,
            unix_ms: 1_700_000_000_000,
            what: "slab_lost".into(),
            donor: Some("alpha:7447".into()),
            part: Some(12),
            why: Some("the donor did not answer within 1000 ms".into()),
        }
    }

    #[test]
    fn an_event_is_a_line() {
        assert_eq!(
            event().line(),
            "2023-11-14 22:13:20Z       61.002 s  alpha:7447              slab lost          part 12  \
             the donor did not answer within 1000 ms"
        );
        let bare = Event { donor: None, part: None, why: None, what: "donor_connected".into(), ..event() };
        assert!(bare.line().ends_with("-                       donor connected"), "{}", bare.line());
    }

    #[test]
    fn a_peer_cannot_command_the_terminal() {
        let hostile = Event {
            after_ms: u64::MAX,
            unix_ms: u64::MAX,
            what: "\x1b[2J".into(),
            donor: Some("\n".into()),
            why: Some("\x07".into()),
            ..event()
        };
        assert!(!hostile.line().contains(char::is_control), "{:?}", hostile.line());
    }
}
