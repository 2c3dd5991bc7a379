//! The process in which one peer runs: takes its task from standard input, answers with one JSON
//! event per line on standard output.

use std::io::{self, BufRead, Lines, StdinLock, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cgroup;
use crate::error::{Error, Result};
use crate::study::{self, Entry, Fields};

/// First line of the child's input.
#[derive(Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// Name of the study.
    pub study: String,
    /// What it tells its children.
    pub task: Value,
    /// Control group to join first.
    pub cgroup: Option<PathBuf>,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Event {
    /// Percent of a long step.
    Progress {
        /// The step.
        what: String,
        /// 0 to 100.
        percent: u64,
    },
    /// Filled; requests may come.
    Ready,
    /// What a run of a study came to.
    Figures(Fields),
    /// What one of several came to that a child measures together.
    Row {
        /// Name of the peer.
        peer: String,
        /// One run.
        figures: Fields,
    },
    /// The task is complete.
    Done,
    /// The machine lacks something.
    Unavailable(String),
    /// What was read is not what was written.
    WrongData {
        /// Whose data.
        peer: String,
        /// What came, and what was expected.
        what: String,
    },
    /// The task failed.
    Failed(String),
}

impl From<Error> for Event {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(reason) => Self::Unavailable(reason),
            Error::WrongData { peer, what } => Self::WrongData { peer, what },
            error => Self::Failed(error.to_string()),
        }
    }
}

impl Event {
    /// The event, unless it tells of an error. `child` is the name of who says it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and [`Error::WrongData`] as the child had them, [`Error::Child`] for all others.
    pub fn or_error(self, child: &str) -> Result<Self> {
        match self {
            Self::Unavailable(reason) => Err(Error::Unavailable(reason)),
            Self::WrongData { peer, what } => Err(Error::WrongData { peer, what }),
            Self::Failed(what) => {
                Err(Error::Child { peer: child.to_owned(), what: format!("failed: {what}") })
            }
            event => Ok(event),
        }
    }
}

/// The child's way to its parent.
#[derive(Debug)]
pub struct Parent {
    requests: Lines<StdinLock<'static>>,
    percent: u64,
}

impl Parent {
    /// Sends one event; a parent that is gone takes the child with it anyway.
    pub fn tell(&mut self, event: &Event) {
        let line = serde_json::to_string(event).expect("events have only plain fields");
        let mut out = io::stdout().lock();
        let _sent = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Tells of a run of one of several who are measured together.
    pub fn row(&mut self, peer: &str, figures: Fields) {
        self.tell(&Event::Row { peer: peer.to_owned(), figures });
    }

    /// Reports how far a step is, when the percentage changed.
    pub fn progress(&mut self, what: &str, done: u64, total: u64) {
        let percent = (done * 100).checked_div(total).unwrap_or(0).min(100);
        if percent != self.percent {
            self.percent = percent;
            self.tell(&Event::Progress { what: what.to_owned(), percent });
        }
    }

    /// The next request; none when the parent has no more.
    ///
    /// # Errors
    /// [`Error::Input`] if it cannot be understood.
    pub fn request<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>> {
        let Some(Ok(line)) = self.requests.next() else { return Ok(None) };
        let understood = serde_json::from_str(&line);
        understood.map(Some).map_err(|error| Error::Input(format!("a request is malformed: {error}")))
    }
}

/// Runs the child of one of `studies` until its task is complete.
pub fn main(studies: &'static [Entry]) {
    let mut parent = Parent { requests: io::stdin().lock().lines(), percent: u64::MAX };
    let last = work(studies, &mut parent).map_or_else(Event::from, |()| Event::Done);
    parent.tell(&last);
}

fn work(studies: &'static [Entry], parent: &mut Parent) -> Result<()> {
    let Some(Assignment { study, task, cgroup }) = parent.request()? else { return Ok(()) };
    if let Some(cgroup) = cgroup {
        cgroup::join(&cgroup)?;
    }
    study::work(studies, &study, task, parent).map(|figures| parent.tell(&Event::Figures(figures)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the parent makes of a child's error.
    fn through_the_pipe(error: Error) -> Error {
        let line = serde_json::to_string(&Event::from(error)).expect("plain fields");
        let event: Event = serde_json::from_str(&line).expect("just written");
        event.or_error("one").expect_err("it tells of an error")
    }

    #[test]
    fn errors_keep_their_kind() {
        let wrong = || Error::WrongData { peer: "swap".to_owned(), what: "object 7 \"x\"".to_owned() };
        let told = through_the_pipe(wrong());
        assert!(matches!(told, Error::WrongData { .. }));
        assert_eq!(told.to_string(), wrong().to_string());
        let told = through_the_pipe(Error::Unavailable("no fio".to_owned()));
        assert!(matches!(told, Error::Unavailable(reason) if reason == "no fio"));
        let failed = through_the_pipe(Error::Input("no sense".to_owned()));
        assert!(matches!(failed, Error::Child { peer, what } if peer == "one" && what == "failed: no sense"));
        assert!(matches!(Event::Ready.or_error("one"), Ok(Event::Ready)));
    }
}
