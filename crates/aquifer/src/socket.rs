//! Statistics and checks for other processes.

use std::path::Path;
use std::sync::Arc;

use aquifer_status::{Question, Server, Subject, latency, refusal, stats};
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::error::Error;
use crate::stats::Stats;

/// Answers at `path` for as long as the server lives and `parts` are there.
pub(crate) fn start(path: &Path, parts: &Arc<Assembly>) -> Result<Server, Error> {
    let weak = Arc::downgrade(parts);
    let answer = move |question| match weak.upgrade() {
        None => refusal("the heap is closing"),
        Some(parts) => answer(question, &parts),
    };
    let failed =
        |error| Error::System { what: format!("the socket {} could not be made", path.display()), error };
    Server::start(path, answer).map_err(failed)
}

fn answer(question: Question, parts: &Assembly) -> Value {
    let pid = std::process::id();
    match question {
        Question::Stats => {
            let mut answer = stats(Subject::Heap, &Stats::of(parts));
            if let Some(remote) = &parts.remote {
                answer["remote"] = json!(remote.shown());
            }
            answer
        }
        Question::Latency => latency(parts.engine.read_durations()),
        Question::Events => match &parts.remote {
            None => refusal("this heap has no donors, and so no events"),
            Some(remote) => json!({ "pid": pid, "version": crate::VERSION, "events": remote.events() }),
        },
        Question::Check => {
            let waits = parts.engine.long_waits();
            match parts.allocator.check() {
                Ok(()) => json!({ "pid": pid, "check": "ok", "waits": waits }),
                Err(problem) => json!({ "pid": pid, "check": "failed", "problem": problem, "waits": waits }),
            }
        }
    }
}
