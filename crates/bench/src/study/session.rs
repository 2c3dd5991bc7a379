//! A call of a study: what is measured one after the other, and its records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aquifer_base::units::parse_size;
use clap::Args;
use serde::Serialize;

use super::fields::Fields;
use super::record::{Output, Record};
use super::table::Table;
use crate::cgroup::Cgroup;
use crate::child::Event;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::payload::{PAGE_BYTES, Payload};
use crate::progress::Progress;
use crate::rng::Rng;
use crate::runner::Runner;
use crate::workdir::WorkDir;
use crate::{cleanup, contents};

/// Longest wait for one peer's late writes before the next one runs.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// Options of every study. Their defaults are the study's ([`Study::DEFAULTS`](super::Study::DEFAULTS)).
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Times that everything is measured; medians count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 5.0, value_parser = parse_measured)]
    pub seconds: f64,
    /// Seconds before them that do not count
    #[arg(long, default_value_t = 5.0, value_parser = parse_seconds)]
    pub warmup: f64,
    /// RAM that everybody has
    #[arg(long, value_parser = parse_size, default_value = "256M")]
    pub ram: u64,
    /// Bytes of the data; several are measured one after the other
    #[arg(long, value_parser = parse_size, value_delimiter = ',', default_value = "1G")]
    pub data: Vec<u64>,
    /// What the bytes look like; several are measured one after the other
    #[arg(long, value_enum, value_delimiter = ',', default_value = "random")]
    pub payload: Vec<Payload>,
    /// Folder for files, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
    /// Append one JSON line for each run of each peer to this file
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// The shortest time that says something.
const SECONDS_MIN: f64 = 0.1;

fn parse_measured(text: &str) -> std::result::Result<f64, String> {
    let seconds = parse_seconds(text)?;
    if seconds < SECONDS_MIN { Err(format!("at least {SECONDS_MIN} s are measured")) } else { Ok(seconds) }
}

/// A number of seconds.
///
/// # Errors
/// A sentence with the rule.
pub fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("'{text}' is not a number of seconds, at most a day"))
}

/// Progress, records and what went wrong.
pub struct Session {
    /// What every study is told.
    pub common: Common,
    /// What the bytes look like that are measured now.
    pub payload: Payload,
    /// What the person at the terminal sees.
    pub progress: Progress,
    /// The disk of the files; none for a study without files, or with files that are on no disk.
    device: Option<Device>,
    study: &'static str,
    tables: &'static [&'static Table],
    context: Context,
    output: Option<Output>,
    records: Vec<Record>,
    /// What lz4 makes of payloads, by the bytes of objects; pages have none.
    lz4_sizes: BTreeMap<(Payload, Option<u64>), f64>,
    omissions: Omissions,
    _workdir: Option<WorkDir>,
}

fn shuffled<T: Clone>(all: &[T], rng: &mut Rng) -> Vec<T> {
    let mut all = all.to_vec();
    rng.shuffle(&mut all);
    all
}

/// One peer at one point.
#[derive(Clone, Debug)]
pub struct Cell<K, P> {
    /// The peer.
    pub peer: K,
    /// The point.
    pub point: P,
}

/// What a study has in its folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// None.
    None,
    /// Files on a disk that the kernel counts for.
    OnDisk,
    /// Files on whatever the folder is on, which may be memory.
    Anywhere,
}

impl Session {
    /// Locks the folder, if there are `files`, and opens the output.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Input`] if another benchmark runs there.
    pub(super) fn open(
        study: &'static str,
        tables: &'static [&'static Table],
        common: Common,
        files: Files,
    ) -> Result<Self> {
        let workdir = (files != Files::None).then(|| WorkDir::acquire(&common.dir)).transpose()?;
        let device = match files {
            Files::None => None,
            Files::OnDisk => Some(Device::holding(&common.dir)?),
            Files::Anywhere => Device::holding(&common.dir).ok(),
        };
        Ok(Self {
            context: device.as_ref().map_or_else(|| Context::with_files_on("no disk"), Context::here),
            progress: Progress::new(0),
            output: common.out.as_deref().map(Output::open).transpose()?,
            payload: Payload::Random,
            device,
            study,
            tables,
            common,
            records: Vec::new(),
            lz4_sizes: BTreeMap::new(),
            omissions: Omissions::default(),
            _workdir: workdir,
        })
    }

    /// Measures every peer at every point in each run. The run decides the order of the points, and of the peers, which are
    /// measured one after the other at a point, so that no disturbance of the machine meets one peer alone. `measure` gives
    /// the figures. A run that fails is recorded as left out; the others go on.
    ///
    /// # Errors
    /// [`Error::WrongData`]; [`Error::Io`] of the output.
    pub fn turns<K: Copy + ToString, P: Clone + Serialize>(
        &mut self,
        peers: &[K],
        points: impl IntoIterator<Item = P>,
        mut measure: impl FnMut(&mut Self, &Cell<K, P>, u32) -> Result<Fields>,
    ) -> Result<()> {
        let points: Vec<P> = points.into_iter().collect();
        self.progress.expect(u64::from(self.common.runs) * (peers.len() * points.len()) as u64);
        (1..=self.common.runs).try_for_each(|run| self.round(run, peers, &points, &mut measure))
    }

    /// Measures every peer at every point once, as [`Session::turns`] does in each run.
    ///
    /// # Errors
    /// The same.
    pub fn round<K: Copy + ToString, P: Clone + Serialize>(
        &mut self,
        run: u32,
        peers: &[K],
        points: &[P],
        measure: impl FnMut(&mut Self, &Cell<K, P>, u32) -> Result<Fields>,
    ) -> Result<()> {
        let at = |point: &P| peers.iter().map(|&peer| Cell { peer, point: point.clone() }).collect();
        let groups: Vec<Vec<_>> = points.iter().map(at).collect();
        self.round_of(run, &groups, measure)
    }

    /// Measures every cell once, as [`Session::round`] does, where not every peer is at every point: a group has the cells that stand for one point.
    ///
    /// # Errors
    /// The same.
    pub fn round_of<K: Copy + ToString, P: Clone + Serialize>(
        &mut self,
        run: u32,
        groups: &[Vec<Cell<K, P>>],
        mut measure: impl FnMut(&mut Self, &Cell<K, P>, u32) -> Result<Fields>,
    ) -> Result<()> {
        let mut rng = Rng::new(run.into());
        for group in shuffled(groups, &mut rng) {
            for cell in shuffled(&group, &mut rng) {
                cleanup::stop_if_interrupted();
                let peer = cell.peer.to_string();
                self.progress.doing(format!("{peer}, run {run}"));
                let figures = measure(self, &cell, run);
                self.keep(&peer, &cell.point, run, figures)?;
                self.progress.step();
            }
        }
        Ok(())
    }

    /// Makes what a peer needs; nothing if that fails, which is recorded.
    ///
    /// # Errors
    /// [`Error::WrongData`]; [`Error::Io`] of the output.
    pub fn attempt<T>(
        &mut self,
        peer: &str,
        point: &impl Serialize,
        make: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        match make(self) {
            Ok(made) => Ok(Some(made)),
            Err(error) => self.keep(peer, point, 1, Err(error)).map(|()| None),
        }
    }

    /// Records figures, or why they are missing.
    ///
    /// # Errors
    /// [`Error::WrongData`] if that is why; [`Error::Io`] of the output.
    pub fn keep(
        &mut self,
        peer: &str,
        point: &impl Serialize,
        run: u32,
        figures: Result<Fields>,
    ) -> Result<()> {
        let mut record = Record {
            study: self.study.to_owned(),
            peer: peer.to_owned(),
            run,
            point: self.payload_of(Fields::of(point)),
            figures: Fields::default(),
            left_out: None,
            context: self.context.clone(),
        };
        match figures {
            Ok(figures) => record.figures = figures,
            Err(error) => record.left_out = Some(self.omissions.reason(error)?),
        }
        self.progress.note(&super::sentence(self.tables, &record));
        if let Some(output) = &mut self.output {
            output.write(&record)?;
        }
        self.records.push(record);
        Ok(())
    }

    /// `point` with the payload, and with its compressed size unless that is there: of objects that are proven if the point
    /// has their size, else of pages; unchanged if payloads mean nothing to the study, or the point says
    /// itself what its bytes are.
    fn payload_of(&mut self, point: Fields) -> Fields {
        if self.common.payload.is_empty() || point.get("payload").is_some() {
            return point;
        }
        let payload = self.payload;
        if point.get("lz4").is_some() {
            return point.with("payload", payload);
        }
        let object_bytes = point.number("object_bytes").map(|bytes| bytes as u64);
        let size = self.lz4_sizes.entry((payload, object_bytes)).or_insert_with(|| match object_bytes {
            Some(bytes) => contents::lz4_size(payload, bytes as usize),
            None => payload.lz4_size(PAGE_BYTES),
        });
        point.with("payload", payload).with("lz4", format!("{size:.2}"))
    }

    /// Runs a child on a task of the study, in a control group of its own with `limited` bytes if that is given, once the disk is quiet; its figures.
    ///
    /// # Errors
    /// The child's; [`Error::Unavailable`] without control groups.
    pub fn child(&mut self, peer: &str, task: &impl Serialize, limited: Option<u64>) -> Result<Fields> {
        self.settle()?;
        self.start(peer, task, limited)?.figures(&self.progress)
    }

    /// Tries a control group, before files are made, which takes minutes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without control groups.
    pub fn try_group(&self) -> Result<()> {
        Cgroup::create(self.study, self.common.ram, false).map(drop)
    }

    /// Starts a child as [`Session::child`] does, which may be sent requests.
    ///
    /// # Errors
    /// As [`Session::child`].
    pub fn start(&self, peer: &str, task: &impl Serialize, limited: Option<u64>) -> Result<Runner> {
        let group = limited.map(|bytes| Cgroup::create(self.study, bytes, false)).transpose()?;
        self.start_in(group, &[], peer, task)
    }

    /// Starts a child in `group`, with `environment` beside that of this process.
    ///
    /// # Errors
    /// The child's.
    pub fn start_in(
        &self,
        group: Option<Cgroup>,
        environment: &[(&str, &str)],
        peer: &str,
        task: &impl Serialize,
    ) -> Result<Runner> {
        let task = serde_json::to_value(task).expect("tasks have only plain fields");
        Runner::start(peer, self.study, task, group, environment)
    }

    /// Runs a child that measures several peers together, and records the runs that it tells of; `name` is left out if it fails.
    ///
    /// # Errors
    /// [`Error::WrongData`]; [`Error::Io`] of the output.
    pub fn rows(&mut self, name: &str, point: &impl Serialize, task: &impl Serialize) -> Result<()> {
        let outcome = self.start(name, task, None).and_then(|mut child| {
            let mut runs: BTreeMap<String, u32> = BTreeMap::new();
            loop {
                match child.next(&self.progress)? {
                    Event::Row { peer, figures } => {
                        let run = runs.entry(peer.clone()).or_default();
                        *run += 1;
                        self.keep(&peer, point, *run, Ok(figures))?;
                    }
                    _ => return Ok(()),
                }
            }
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.keep(name, point, 1, Err(error)),
        }
    }

    /// Waits until hardly anything is written to the disk any more, but not for long; bytes a second that are written still.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn settle(&self) -> Result<u64> {
        self.device.as_ref().map_or(Ok(0), |device| device.settle(SETTLE_LIMIT))
    }

    /// Checks that a figure is the same for all peers that have it at the same point.
    ///
    /// # Errors
    /// [`Error::WrongData`] with two that differ.
    pub fn agree(&self, figure: &str) -> Result<()> {
        let with_figure = || self.records.iter().filter(|record| record.figures.get(figure).is_some());
        for record in with_figure() {
            let own = record.figures.text(figure);
            let other =
                with_figure().find(|other| other.point == record.point && other.figures.text(figure) != own);
            if let Some(other) = other {
                let what = format!("{figure} is {own}, {} for {}", other.figures.text(figure), other.peer);
                return Err(Error::WrongData { peer: record.peer.clone(), what });
            }
        }
        Ok(())
    }

    /// Prints the tables to standard output.
    ///
    /// # Errors
    /// The first of a run that was left out.
    pub(super) fn finish(self) -> Result<()> {
        let Self { records, progress, omissions, tables, .. } = self;
        drop(progress);
        print!("{}", super::render(tables, &records));
        omissions.end()
    }
}
