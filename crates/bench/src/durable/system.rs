//! The systems under test.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A store whose transactions are measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The durable heap on a mapped file.
    Aquifer,
    /// The same, on memory that is as slow to persist as the options say.
    AquiferEmulated,
    /// libpmemobj's transactions: an undo log.
    Pmemobj,
    /// libpmemobj's actions: values that are set, and published together.
    PmemobjActions,
    /// LMDB with `MDB_WRITEMAP` and `MDB_NOSYNC`.
    LmdbNosync,
    /// LMDB as it comes.
    LmdbSync,
    /// redb, `Durability::None`.
    RedbNone,
    /// redb, `Durability::Immediate`.
    RedbImmediate,
}

impl System {
    /// What a transaction that has committed can be relied on for.
    pub fn guarantee(self) -> &'static str {
        match self {
            Self::Aquifer | Self::AquiferEmulated => {
                "durable at commit, ACID (opacity), writers side by side"
            }
            Self::Pmemobj => "durable at commit, atomic by an undo log; isolation left to the program",
            Self::PmemobjActions => {
                "durable when published, atomic by a redo log; does not see its own writes; isolation left to the program"
            }
            Self::LmdbNosync => "no durability: consistent after a process crash only; isolated, one writer",
            Self::LmdbSync => "durable at commit, ACID, one writer",
            Self::RedbNone => "not durable until a durable commit follows, consistent; isolated, one writer",
            Self::RedbImmediate => "durable at commit, ACID, one writer",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aquifer => "aquifer",
            Self::AquiferEmulated => "aquifer-emulated",
            Self::Pmemobj => "pmemobj",
            Self::PmemobjActions => "pmemobj-actions",
            Self::LmdbNosync => "lmdb-nosync",
            Self::LmdbSync => "lmdb-sync",
            Self::RedbNone => "redb-none",
            Self::RedbImmediate => "redb-immediate",
        })
    }
}

/// A system as it takes part in the turns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Contestant {
    /// The system.
    pub system: System,
    /// Its file grows only while at least this share of it is objects; none for systems that do not clean.
    pub utilisation_percent: Option<u32>,
}

impl System {
    /// Whether it cleans its file, as far as it is told to.
    fn cleans(self) -> bool {
        matches!(self, Self::Aquifer | Self::AquiferEmulated)
    }

    /// The system with each of these utilisations, or once if it does not clean.
    pub fn contestants(self, utilisation_percents: &[u32]) -> Vec<Contestant> {
        let with = |utilisation_percent| Contestant { system: self, utilisation_percent };
        match self.cleans() {
            true => utilisation_percents.iter().map(|&percent| with(Some(percent))).collect(),
            false => vec![with(None)],
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.utilisation_percent {
            Some(percent) => write!(f, "{}, {percent} %", self.system),
            None => self.system.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for &system in System::value_variants() {
            let name = system.to_possible_value().expect("none is hidden");
            assert_eq!(system.to_string(), name.get_name());
            assert_eq!(serde_json::to_value(system).expect("a string"), name.get_name());
        }
    }

    #[test]
    fn only_what_cleans_has_a_utilisation() {
        let names = |system: System| system.contestants(&[50, 85]).iter().map(ToString::to_string).collect();
        let (aquifer, pmemobj): (Vec<String>, Vec<String>) = (names(System::Aquifer), names(System::Pmemobj));
        assert_eq!(
            (aquifer, pmemobj),
            (vec!["aquifer, 50 %".into(), "aquifer, 85 %".into()], vec!["pmemobj".into()])
        );
    }
}
