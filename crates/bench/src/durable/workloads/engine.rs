//! The systems under test, and the programs that they run.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How transactions become durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The durable heap: written once, to the log.
    Aquifer,
    /// In place: new bytes to a log, and then to their homes.
    Redo,
    /// In place: old bytes to a log, and then new ones to their homes.
    Undo,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aquifer => "aquifer",
            Self::Redo => "redo",
            Self::Undo => "undo",
        })
    }
}

/// A system as it takes part in the turns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Contender {
    /// The system.
    pub engine: Engine,
    /// The file of the durable heap grows only while at least this share of it is objects.
    pub utilisation_percent: Option<u32>,
}

impl Engine {
    /// The durable heap with each of these utilisations; the others once.
    pub fn contenders(self, utilisation_percents: &[u32]) -> Vec<Contender> {
        let with = |utilisation_percent| Contender { engine: self, utilisation_percent };
        match self {
            Self::Aquifer => utilisation_percents.iter().map(|&percent| with(Some(percent))).collect(),
            Self::Redo | Self::Undo => vec![with(None)],
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.utilisation_percent {
            Some(percent) => write!(f, "{}, {percent} %", self.engine),
            None => self.engine.fmt(f),
        }
    }
}

/// What the transactions do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// 50 % inserts, 25 % updates, 25 % removals in a hash map: keys of 8 bytes, values of 100.
    HashMap,
    /// The same in a B+tree: keys of 8 bytes, values of 16.
    Btree,
    /// Pushes and pops of 64 bytes, half and half.
    Queue,
    /// New orders and payments, half and half: TPC-C-like, not TPC-C.
    Tpcc,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HashMap => "hash-map",
            Self::Btree => "btree",
            Self::Queue => "queue",
            Self::Tpcc => "tpcc",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for &engine in Engine::value_variants() {
            assert_eq!(engine.to_string(), engine.to_possible_value().expect("not hidden").get_name());
        }
        for &program in Program::value_variants() {
            assert_eq!(program.to_string(), program.to_possible_value().expect("not hidden").get_name());
        }
    }
}
