//! Samples with names.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use aquifer_base::Found;
use aquifer_base::samples::Samples;

use crate::profile::callers::Callers;
use crate::profile::modules::{self, Module, Modules};
use crate::profile::symbols::{Frame, Symbols};

/// A sample with names.
pub struct Stack {
    /// What the fault found.
    pub found: Found,
    /// How long it took.
    pub duration: Duration,
    /// The function that faulted, and its callers.
    pub frames: Vec<Frame>,
}

/// All samples of a program.
pub struct Stacks {
    /// Faults of which these are samples.
    pub faults: u64,
    /// The samples.
    pub stacks: Vec<Stack>,
}

impl Stacks {
    /// Gives names to samples.
    pub fn of(samples: &Samples<'_>) -> Self {
        let modules: Modules = modules::parse(samples.modules());
        let mut symbols = Symbols::default();
        let mut processes = HashMap::<u32, Callers>::new();
        let no_modules = Vec::new();
        let stacks = samples.iter().map(|sample| {
            let modules = modules.get(&sample.head.process).unwrap_or(&no_modules);
            let callers =
                processes.entry(sample.head.process).or_insert_with(|| callers(modules, &mut symbols));
            let addresses = callers.of(&sample);
            let frames =
                addresses.iter().flat_map(|&address| frames(modules, address, &mut symbols).to_vec());
            Stack {
                found: sample.head.found,
                duration: Duration::from_nanos(sample.head.duration_ns),
                frames: frames.collect(),
            }
        });
        Self { stacks: stacks.collect(), faults: samples.faults() }
    }
}

fn callers(modules: &[Module], symbols: &mut Symbols) -> Callers {
    Callers::new(modules.iter().map(|module| (module, symbols.image(module))))
}

fn frames(modules: &[Module], address: u64, symbols: &mut Symbols) -> Rc<[Frame]> {
    match modules::find(modules, address) {
        Some(module) => symbols.frames(module, address),
        None => [Frame {
            function: "code that is not known".into(),
            line: None,
            is_inlined: false,
            module: "".into(),
        }]
        .into(),
    }
}
