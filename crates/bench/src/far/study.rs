//! All runs, in turns: a program with everything local, and then on each peer with each share.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::answer::Answer;
use super::below::Below;
use super::cache::{self, Requests};
use super::job;
use super::launch::{Cell, Launch, Measure};
use super::mix::Mix;
use super::options::FarOptions;
use super::peer::Peer;
use super::program::Program;
use super::sample::Far;
use super::task::graph;
use crate::cgroup::Cgroup;
use crate::cleanup::{self, Guard};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::machine::Context;
use crate::omissions::Omissions;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::sample::{Output, Record, Skipped};
use crate::table;
use crate::workdir::WorkDir;

/// Longest wait for one run's late writes before the next one.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// How often a run is tried whose program dies.
const TRIES: u32 = 3;

/// The state of a comparison.
pub struct Study<'a> {
    options: &'a FarOptions,
    context: Context,
    device: Device,
    programs: Programs,
    progress: Progress,
    output: Output,
    records: Vec<Record>,
    /// What could not run once is not tried again.
    left_out: BTreeSet<String>,
    omissions: Omissions,
    graph: Option<(PathBuf, Guard)>,
    _workdir: WorkDir,
}

impl<'a> Study<'a> {
    /// Locks the directory and opens the output.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Input`]; [`Error::Unavailable`] if the directory is on no disk.
    pub fn open(options: &'a FarOptions) -> Result<Self> {
        let workdir = WorkDir::acquire(&options.dir)?;
        let device = Device::holding(workdir.path())?;
        let runs = |program: &Program| 1 + options.far_peers(*program).count() * options.share.len();
        let steps = options.program.iter().map(runs).sum::<usize>() as u64 * u64::from(options.runs);
        Ok(Self {
            options,
            context: Context::here(&device),
            device,
            programs: Programs::find()?,
            progress: Progress::new(steps),
            output: Output::open(options.out.as_deref())?,
            records: Vec::new(),
            left_out: BTreeSet::new(),
            omissions: Omissions::default(),
            graph: None,
            _workdir: workdir,
        })
    }

    /// Runs everything and shows the table.
    ///
    /// # Errors
    /// [`Error::WrongData`], [`Error::Io`] of the output; in the end the first failure of a run that was left out.
    pub fn run(mut self) -> Result<()> {
        for &program in &self.options.program {
            if program == Program::Pagerank {
                self.make_graph()?;
            }
            self.compare(program)?;
        }
        self.progress.note(&table::render(&self.records));
        self.omissions.end()
    }

    fn make_graph(&mut self) -> Result<()> {
        let path = self.options.dir.join(format!("aquifer-bench-far-{}.graph", std::process::id()));
        let owned = path.clone();
        let guard = cleanup::register(move || {
            if let Err(error) = fs::remove_file(&owned) {
                eprintln!("removing {}: {error}", owned.display());
            }
        });
        graph::write(&path, self.options.data, &mut |percent| {
            self.progress.doing(format!("making the graph: {percent} %"));
        })?;
        self.graph = Some((path, guard));
        Ok(())
    }

    fn compare(&mut self, program: Program) -> Result<()> {
        let local = Cell { program, peer: Peer::Local, share: 100 };
        let cells: Vec<Cell> = self
            .options
            .far_peers(program)
            .flat_map(|peer| self.options.share.iter().map(move |&share| Cell { program, peer, share }))
            .collect();
        let mut measure = None;
        for run in 1..=self.options.runs {
            let mut turn = vec![local];
            turn.extend(&cells);
            // What disturbs the machine for a while does not meet one peer only; but the first local run says what the others have to do.
            Rng::new(run.into()).shuffle(if run == 1 { &mut turn[1..] } else { &mut turn[..] });
            for cell in turn {
                let Some(answer) = self.take_turn(cell, run, measure)? else { continue };
                if cell.peer == Peer::Local {
                    let (rounds, digest) = (answer.rounds, answer.digest);
                    let peak_bytes = answer.memory.total_bytes();
                    measure.get_or_insert(Measure { peak_bytes, rounds, digest });
                }
            }
            if measure.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One run; nothing if it could not be made, which is recorded.
    fn take_turn(&mut self, cell: Cell, run: u32, measure: Option<Measure>) -> Result<Option<Answer>> {
        let name = format!("{} {} % {}", cell.program, cell.share, cell.peer);
        let is_possible = cell.peer == Peer::Local || measure.is_some();
        if !is_possible || self.left_out.contains(&name) {
            self.progress.step();
            return Ok(None);
        }
        cleanup::stop_if_interrupted();
        self.progress.doing(format!("{name}, run {run}"));
        let made = self.try_measure(&name, cell, run, measure);
        self.progress.step();
        match made {
            Ok(sample) => {
                self.progress.note(&sample.summary());
                let answer = sample.answer;
                self.keep(Record::Far(Box::new(sample)))?;
                Ok(Some(answer))
            }
            Err(error) => {
                let reason = self.omissions.reason(error)?;
                self.progress.note(&format!("{name} is left out: {reason}"));
                let peer = format!("far {name}");
                self.left_out.insert(name);
                self.keep(Record::Skipped(Skipped { peer, reason, context: self.context.clone() }))?;
                Ok(None)
            }
        }
    }

    /// Again if the program dies, which the kernel may see to with little RAM: that must not end a long comparison.
    fn try_measure(&self, name: &str, cell: Cell, run: u32, measure: Option<Measure>) -> Result<Far> {
        for _ in 1..TRIES {
            match self.measure(name, cell, run, measure) {
                Err(error @ (Error::Child { .. } | Error::Killed { .. })) => {
                    self.progress.note(&format!("{error}; {name} is tried again"))
                }
                made => return made,
            }
        }
        self.measure(name, cell, run, measure)
    }

    fn measure(&self, name: &str, cell: Cell, run: u32, measure: Option<Measure>) -> Result<Far> {
        let (options, programs) = (self.options, &self.programs);
        let graph = self.graph.as_ref().map(|(path, _)| path);
        let launch = Launch { options, programs, graph, cell, measure };
        let peak_bytes = measure.map_or(0, |measure| measure.peak_bytes);
        let disk_iops = options.disk_iops_of(cell.peer)?;
        let below = Below::make(cell.peer, programs, &options.dir, peak_bytes)?;
        let command = launch.command(&below, run.into())?;
        let limit_bytes = launch.limit_bytes();
        let cgroup = limit_bytes.map(|limit| self.group(cell.peer, limit, disk_iops)).transpose()?;
        if let Some(cgroup) = cgroup.as_ref().filter(|_| cell.peer.swaps()) {
            cgroup.wait_for_memory()?;
        }
        self.device.settle(SETTLE_LIMIT)?;
        let before = self.device.counters()?;
        let answer = if cell.program.is_cache() {
            let requests = self.requests(&launch, run);
            cache::run(name, command, cgroup, &options.dir, below.redis(), &requests, &self.progress)?
        } else {
            job::run(name, command, cgroup.as_ref(), Duration::from_secs_f64(options.limit))?
        };
        check_digest(name, &answer, measure)?;
        Ok(Far {
            program: cell.program,
            peer: cell.peer,
            share: cell.share,
            run,
            data_bytes: options.data,
            peak_bytes: if measure.is_some() { peak_bytes } else { answer.memory.total_bytes() },
            limit_bytes,
            given_bytes: launch.given_bytes(),
            swap_bytes: below.swap_bytes(),
            disk_iops: options.disk_iops,
            warmup_s: options.warmup,
            device: self.device.counters()?.since(before),
            answer,
            context: self.context.clone(),
        })
    }

    fn group(&self, peer: Peer, limit_bytes: u64, disk_iops: Option<u64>) -> Result<Cgroup> {
        let name = format!("far-{peer}");
        let mut group = Cgroup::create(&name, limit_bytes, peer.swaps())?;
        if let Some(iops) = disk_iops {
            group.limit_disk(&name, &self.device, iops)?;
        }
        Ok(group)
    }

    fn requests(&self, launch: &Launch<'_>, run: u32) -> Requests {
        let mix = Mix::of(launch.cell.program);
        let extent = self.options.extent();
        Requests {
            mix,
            items: mix.items(self.options.data),
            near_percent: launch.near_percent(),
            clients: self.options.clients.into(),
            warmup: extent.warmup,
            length: extent.length,
            seed: run.into(),
        }
    }

    fn keep(&mut self, record: Record) -> Result<()> {
        self.output.write(&record)?;
        self.records.push(record);
        Ok(())
    }
}

/// The same work has the same result, wherever its memory is.
fn check_digest(name: &str, answer: &Answer, measure: Option<Measure>) -> Result<()> {
    match measure {
        Some(measure) if measure.digest != answer.digest => {
            let what =
                format!("the digest {:x?}, {:x?} with everything local", answer.digest, measure.digest);
            Err(Error::WrongData { peer: name.to_owned(), what })
        }
        _ => Ok(()),
    }
}
