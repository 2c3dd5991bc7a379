//! Programs that nobody here wrote, with a part of the memory that they take: natively, under `aquifer run`, with kernel swap, with zswap.
//!
//! `tests/corpus/run.py` runs them, and tells of each run by a line of JSON.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::child::Parent;
use crate::cleanup;
use crate::error::{Error, Result};
use crate::programs::Programs;
use crate::service::Service;
use crate::study::{Fields, Session, Study, Table, key, median, range, ratio, text};

/// How often a wait for the next run looks whether it is to end.
const STEP: Duration = Duration::from_millis(200);

const TABLE: Table = Table {
    title: "Programs with 1/N of the memory that they take",
    keys: &[key("program", "program"), key("N", "divisor")],
    peers: &["native", "managed", "swap", "zswap"],
    columns: &[
        median("s", "seconds").less(),
        ratio("x swap", "seconds", &["swap"]).less(),
        ratio("x zswap", "seconds", &["zswap"]).less(),
        ratio("x native", "seconds", &["native"]).less(),
        range("least, most s", "seconds"),
        median("CPU s", "cpu_seconds").less(),
        ratio("CPU x native", "cpu_seconds", &["native"]).less(),
        median("RAM MiB", "ram_mib").digits(0),
        median("peak MiB", "peak_mib").digits(0).less(),
        median("peak / RAM", "peak_of_ram").less(),
        median("all MiB", "total_mib").digits(0),
        text("fits", "fits"),
        median("load", "load").digits(1),
    ],
    note: "x: time over that of the peer in the same run. RAM: of each managed process; of swap and zswap, with its pool, what all managed processes had \
        together. peak: anonymous memory and page tables of the largest process; all: of all processes, with zswap's pool. fits: memory that was not \
        managed, or not more than the RAM. load: of the machine, when the run had ended.",
};

const EXAMPLES: &str = "\
Examples:
  aquifer-bench programs sort sqlite3 redis --out results.jsonl
  aquifer-bench programs --budgets 2 --runs 3 --out results.jsonl
      All of them, which takes hours; `tests/corpus/run.py --list` prints the names
  AQUIFER=build/bin/aquifer aquifer-bench programs --corpus tests/corpus --runs 1 python

Needs the source folder and python3; swap and zswap need root. Programs that are missing are unpacked below build/corpus.
Output other than the native run's ends the call at once; a run that was killed or hung is left out with the reason.";

/// Options of `programs`.
#[derive(Clone, Debug, Args)]
pub struct CorpusOptions {
    /// Programs [all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Parts of the memory that a program takes natively: 2 is a half
    #[arg(long, value_delimiter = ',', default_value = "2,4,8", value_parser = clap::value_parser!(u32).range(1..))]
    budgets: Vec<u32>,
    /// Folder of run.py [that of the sources of this program]
    #[arg(long)]
    corpus: Option<PathBuf>,
}

/// A line of `run.py --records`.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(flatten)]
    point: Point,
    peer: String,
    run: u32,
    outcome: String,
    why: String,
    #[serde(flatten)]
    figures: Fields,
}

/// A native run has no divisor.
#[derive(Debug, Serialize, Deserialize)]
struct Point {
    program: String,
    divisor: Option<u32>,
}

/// The study.
pub struct Corpus;

impl Study for Corpus {
    const NAME: &str = "programs";
    const ABOUT: &str = "Unchanged programs with a part of the memory that they take, beside swap and zswap";
    const EXAMPLES: &str = EXAMPLES;
    const DEFAULTS: &[(&str, &str)] = &[];
    const UNUSED: &[&str] = &["payload", "data", "ram", "seconds", "warmup"];
    const TABLES: &[&Table] = &[&TABLE];
    type Options = CorpusOptions;
    type Task = ();

    fn run(session: &mut Session, options: &CorpusOptions, _: u64) -> Result<()> {
        let each = 1 + 3 * options.budgets.len() as u64;
        session.progress.expect(u64::from(session.common.runs) * options.names.len() as u64 * each);
        let mut programs = Service::start("run.py", options.command(session)?)?;
        loop {
            cleanup::stop_if_interrupted();
            let line = match programs.line(STEP) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return programs.finish(),
            };
            let line: Line = serde_json::from_str(&line).map_err(|error| {
                Error::Input(format!("run.py told '{line}', which is no record: {error}"))
            })?;
            session.keep(&line.peer, &line.point, line.run, line.figures())?;
            session.progress.doing(format!("{}, after {}", line.point.program, line.peer));
            session.progress.step();
        }
    }

    fn work((): (), _: &mut Parent) -> Result<Fields> {
        Err(Error::Input("programs are run by run.py".to_owned()))
    }
}

impl CorpusOptions {
    fn command(&self, session: &Session) -> Result<Command> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
        let folder = self.corpus.clone().unwrap_or(own);
        let script = folder.join("run.py").canonicalize().map_err(|_| {
            Error::Unavailable(format!("run.py is not in {}; --corpus names its folder", folder.display()))
        })?;
        let mut command = Command::new(script);
        if env::var_os("AQUIFER").is_none() {
            command.env("AQUIFER", Programs::find()?.aquifer()?);
        }
        let budgets: Vec<String> = self.budgets.iter().map(u32::to_string).collect();
        command.args(["--swap", "--zswap", "--records", "-", "--budgets", &budgets.join(",")]);
        command.args(["--runs", &session.common.runs.to_string(), "--dir"]).arg(&session.common.dir);
        command.args(&self.names);
        Ok(command)
    }
}

impl Line {
    fn figures(&self) -> Result<Fields> {
        let Point { program, divisor } = &self.point;
        let at = divisor.map_or_else(|| program.clone(), |divisor| format!("{program}, 1/{divisor}"));
        let what = format!("{at}: {}, {}", self.outcome, self.why);
        let peer = self.peer.clone();
        match self.outcome.as_str() {
            "right" => {
                let [peak, ram] = ["peak_mib", "ram_mib"].map(|name| self.figures.number(name));
                let part = peak.zip(ram).map(|(peak, ram)| peak / ram);
                Ok(self.figures.clone().with("peak_of_ram", part))
            }
            "wrong" => Err(Error::WrongData { peer, what }),
            "killed" => Err(Error::Killed { peer, what: format!("did not end: {what}") }),
            "skipped" | "refused" | "void" => Err(Error::Unavailable(what)),
            _ => Err(Error::Child { peer, what: format!("did not end well: {what}") }),
        }
    }
}
