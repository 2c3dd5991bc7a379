//! Studies: what is measured, of whom, and how it is shown.
//!
//! A study is one type that says so ([`Study`]), and one line in [`STUDIES`]. What all of them need is here: options, turns, children, records,
//! tables, promises.
//!
//! | file | noun |
//! |---|---|
//! | `session` | a call of a study: options, children, what is left out |
//! | `record`, `fields` | lines of results |
//! | `table`, `row` | markdown tables of them |
//! | `plot` | bars of the same |
//! | `page` | the page of all stored runs |
//! | `promise`, `check` | what is promised of them, and what got worse |
//! | `choice` | one or several of a few, as on the command line |

mod check;
mod choice;
mod fields;
mod page;
mod plot;
mod promise;
mod record;
mod row;
mod session;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::child::Parent;
use crate::error::{Error, Result};
use crate::{
    budget, corpus, durable, far, memcached, micro, overhead, probe_fio, recover, references, remote, volume,
    write_amp,
};

use session::Files;

pub use check::{CheckOptions, check, read_all};
pub use choice::{each_once, name_of, sorted};
pub use fields::Fields;
pub use page::{PageOptions, page};
pub use plot::plot;
pub use promise::{Bound, Promise};
pub use record::{Record, read};
pub use row::median_of;
pub use session::{Cell, Common, Session, parse_seconds};
pub use table::{Column, Key, Table, key, markdown, median, range, ratio, scaling, text};

/// A question that is put to several peers.
pub trait Study: 'static {
    /// As on the command line: one word, or two.
    const NAME: &'static str;
    /// One line of help.
    const ABOUT: &'static str;
    /// Below the help: examples, and what to know.
    const EXAMPLES: &'static str;
    /// Defaults of [`Common`] options that are not those of all studies.
    const DEFAULTS: &'static [(&'static str, &'static str)];
    /// [`Common`] options that mean nothing to it.
    const UNUSED: &'static [&'static str] = &[];
    /// Whether its files need a disk that the kernel counts for; in memory they have none.
    const NEEDS_DISK: bool = true;
    /// What is printed.
    const TABLES: &'static [&'static Table];
    /// What is promised.
    const PROMISES: &'static [Promise] = &[];
    /// Its own options.
    type Options: Args;
    /// What a child is told.
    type Task: DeserializeOwned;

    /// Measures everything that has to do with data of one size.
    ///
    /// # Errors
    /// Those of [`Session`], and what makes all of it impossible.
    fn run(session: &mut Session, options: &Self::Options, data_bytes: u64) -> Result<()>;

    /// A child: figures of one run.
    ///
    /// # Errors
    /// [`Error::WrongData`], [`Error::Unavailable`], and whatever ends the run.
    fn work(task: Self::Task, parent: &mut Parent) -> Result<Fields>;
}

/// The studies of `aquifer-bench`. A program with others, such as `research/`, has a list of its own.
pub const STUDIES: &[Entry] = &[
    Entry::of::<micro::Micro>(),
    Entry::of::<overhead::Overhead>(),
    Entry::of::<references::References>(),
    Entry::of::<write_amp::WriteAmp>(),
    Entry::of::<budget::Budget>(),
    Entry::of::<memcached::Memcached>(),
    Entry::of::<remote::Remote>(),
    Entry::of::<far::Far>(),
    Entry::of::<recover::Recover>(),
    Entry::of::<probe_fio::ProbeFio>(),
    Entry::of::<corpus::Corpus>(),
    Entry::of::<volume::reads::Reads>(),
    Entry::of::<volume::updates::Updates>(),
    Entry::of::<volume::pagerank::Pagerank>(),
    Entry::of::<volume::kv::Kv>(),
    Entry::of::<volume::oltp::Oltp>(),
    Entry::of::<volume::metadata::Metadata>(),
    Entry::of::<durable::transactions::Transactions>(),
    Entry::of::<durable::workloads::Workloads>(),
    Entry::of::<durable::optimisations::Optimisations>(),
    Entry::of::<durable::cleaning::Cleaning>(),
    Entry::of::<durable::recovery::Recovery>(),
];

/// A study, without its types.
pub struct Entry {
    name: &'static str,
    about: &'static str,
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<()>,
    work: fn(Value, &mut Parent) -> Result<Fields>,
    tables: &'static [&'static Table],
    promises: &'static [Promise],
}

#[derive(Args)]
struct Line<T: Args> {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    own: T,
}

impl Entry {
    /// That of `S`.
    pub const fn of<S: Study>() -> Self {
        Self {
            name: S::NAME,
            about: S::ABOUT,
            command: command::<S>,
            run: run::<S>,
            work: |task, parent| {
                let malformed = |error| Error::Input(format!("the task is malformed: {error}"));
                S::work(S::Task::deserialize(task).map_err(malformed)?, parent)
            },
            tables: S::TABLES,
            promises: S::PROMISES,
        }
    }
}

fn command<S: Study>() -> Command {
    let name = S::NAME.rsplit(' ').next().unwrap_or(S::NAME);
    // What the options say of themselves is no description of the study.
    let command =
        Line::<S::Options>::augment_args(Command::new(name)).about(S::ABOUT).after_help(S::EXAMPLES);
    let command = S::DEFAULTS.iter().fold(command, |command, &(option, value)| {
        command.mut_arg(option, |argument| argument.default_value(value))
    });
    S::UNUSED.iter().fold(command, |command, option| command.mut_arg(option, |argument| argument.hide(true)))
}

fn run<S: Study>(matches: &ArgMatches) -> Result<()> {
    let Line { mut common, own } =
        Line::<S::Options>::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    let is_given = |option: &&&str| matches.value_source(option) == Some(ValueSource::CommandLine);
    if let Some(option) = S::UNUSED.iter().find(is_given) {
        return Err(Error::Input(format!("--{option} means nothing to {}; leave it out", S::NAME)));
    }
    let payloads = common.payload.clone();
    if S::UNUSED.contains(&"payload") {
        common.payload.clear();
    }
    let sizes = common.data.clone();
    let files = match S::UNUSED.contains(&"dir") {
        true => Files::None,
        false if S::NEEDS_DISK => Files::OnDisk,
        false => Files::Anywhere,
    };
    let mut session = Session::open(S::NAME, S::TABLES, common, files)?;
    for data_bytes in sizes {
        for &payload in &payloads {
            session.payload = payload;
            S::run(&mut session, &own, data_bytes)?;
        }
    }
    session.finish()
}

/// The study of that name.
fn entry(studies: &'static [Entry], name: &str) -> Option<&'static Entry> {
    studies.iter().find(|entry| entry.name == name)
}

/// Adds a command for each of `studies` to `command`; one of two words stands below a command of the first.
#[must_use]
pub fn with_commands(studies: &[Entry], mut command: Command) -> Command {
    for entry in studies {
        command = match entry.name.split_once(' ') {
            None => command.subcommand((entry.command)()),
            Some((family, _)) => {
                command.mut_subcommand(family, |family| family.subcommand((entry.command)()))
            }
        };
    }
    command
}

/// Runs the study that was asked for; `None` if it was none of them.
///
/// # Errors
/// Those of the study.
pub fn run_asked(studies: &'static [Entry], matches: &ArgMatches) -> Option<Result<()>> {
    let (mut name, matches) = matches.subcommand().map(|(name, matches)| (name.to_owned(), matches))?;
    let below = matches.subcommand().filter(|_| entry(studies, &name).is_none());
    let matches = match below {
        None => matches,
        Some((second, matches)) => {
            name = format!("{name} {second}");
            matches
        }
    };
    entry(studies, &name).map(|entry| (entry.run)(matches))
}

/// Runs the study `name` with options as on its command line.
///
/// # Errors
/// Those of the study; [`Error::Input`] if no study has that name, or the options make no sense.
pub fn run_with(name: &str, options: &[OsString]) -> Result<()> {
    let entry = entry(STUDIES, name).ok_or_else(|| Error::Input(format!("there is no study {name}")))?;
    let line = std::iter::once(OsString::from(name)).chain(options.iter().cloned());
    let matches = (entry.command)().try_get_matches_from(line);
    (entry.run)(&matches.map_err(|error| Error::Input(error.to_string()))?)
}

/// Whether the study `name` takes the options of `line`.
///
/// # Errors
/// [`Error::Input`] if it does not.
#[cfg(test)]
pub(crate) fn accepts(name: &str, line: &str) -> Result<()> {
    let entry = entry(STUDIES, name).expect("a study of that name");
    let matches =
        (entry.command)().try_get_matches_from(std::iter::once(name).chain(line.split_whitespace()));
    matches.map(drop).map_err(|error| Error::Input(error.to_string()))
}

/// A child of the study `name`.
///
/// # Errors
/// Those of the study.
pub fn work(studies: &'static [Entry], name: &str, task: Value, parent: &mut Parent) -> Result<Fields> {
    let entry = entry(studies, name).ok_or_else(|| Error::Input(format!("there is no study {name}")))?;
    (entry.work)(task, parent)
}

/// Prints the tables that `files` make of `studies`.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`].
pub fn tables(studies: &[Entry], files: &[PathBuf]) -> Result<()> {
    print!("{}", render_all(studies, &read_all(files)?));
    Ok(())
}

/// Draws the tables that `files` make of `studies` into `out_dir`, and prints the names of the pictures.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`].
pub fn plots(studies: &[Entry], files: &[PathBuf], out_dir: &Path) -> Result<()> {
    plot(studies, &read_all(files)?, out_dir)?.iter().for_each(|path| println!("{}", path.display()));
    Ok(())
}

/// All tables that records make of `studies`, and the promises of these.
#[must_use]
pub fn render_all(studies: &[Entry], records: &[Record]) -> String {
    let mut pages = Vec::new();
    for entry in studies {
        let own = check::of_study(records, entry.name);
        pages.push(render(entry.tables, &own));
        let verdicts: Vec<_> = entry.promises.iter().flat_map(|promise| promise.judge(&own)).collect();
        pages.push(promise::render(&verdicts));
    }
    pages.retain(|page| !page.is_empty());
    pages.join("\n")
}

/// Commands and machines, tables, and what was left out.
fn render(tables: &[&Table], records: &[Record]) -> String {
    let mut heads: Vec<String> = Vec::new();
    for Record { context, .. } in records {
        let head = format!("- `{}` ({})\n", context.command, context.summary());
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    let mut left_out: Vec<Vec<String>> = Vec::new();
    for record in records {
        let cells = record.left_out.iter().map(|reason| vec![record.peer.clone(), reason.clone()]);
        left_out.extend(cells.filter(|cells| !left_out.contains(cells)).collect::<Vec<_>>());
    }
    let tables = tables.iter().map(|table| table.render(records));
    let mut parts: Vec<String> = [heads.concat()].into_iter().chain(tables).collect();
    parts.push(table::markdown("Left out", &["peer", "reason"], &left_out));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// One line for the person who waits: the peer, the point, and the first figures of the table that the record is of.
fn sentence(tables: &[&Table], record: &Record) -> String {
    let name = format!("{}, run {}", record.peer, record.run);
    match &record.left_out {
        Some(reason) => format!("{name} is left out: {reason}"),
        None => tables
            .iter()
            .find_map(|table| table.sentence(record))
            .map_or(name.clone(), |line| format!("{name}: {line}")),
    }
}
