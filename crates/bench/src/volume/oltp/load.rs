//! The loads.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::tatp;
use crate::error::Result;
use crate::sqlite::Kind;
use crate::sqlite::connection::Connection;
use crate::sqlite::load::Load as Client;

/// What the transactions do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Small updates of one account each
    TpcB,
    /// Subscribers of a telephone network: 80 % reads
    Tatp,
    /// Orders, payments, deliveries and questions about them
    TpcC,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TpcB => "tpc-b",
            Self::Tatp => "tatp",
            Self::TpcC => "tpc-c",
        })
    }
}

impl Load {
    /// Makes the tables and about `data_bytes` of rows; `tell` is told how many rows of how many are there.
    ///
    /// # Errors
    /// Those of `Connection`.
    pub fn fill(
        self,
        connection: &Connection,
        data_bytes: u64,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        match self {
            Self::TpcB => Kind::TpcB.fill(connection, data_bytes, tell),
            Self::TpcC => Kind::TpcC.fill(connection, data_bytes, tell),
            Self::Tatp => tatp::fill(connection, tatp::subscribers(data_bytes), tell),
        }
    }

    /// A client of a database that was filled with as many bytes.
    ///
    /// # Errors
    /// Those of `Connection`.
    pub fn client(self, connection: &Connection, data_bytes: u64, seed: u64) -> Result<Box<dyn Client + '_>> {
        match self {
            Self::TpcB => Kind::TpcB.client(connection, data_bytes, seed),
            Self::TpcC => Kind::TpcC.client(connection, data_bytes, seed),
            Self::Tatp => Ok(Box::new(tatp::Client::new(connection, tatp::subscribers(data_bytes), seed)?)),
        }
    }

    /// Branches, warehouses or subscribers of `data_bytes`.
    pub fn scale(self, data_bytes: u64) -> u64 {
        match self {
            Self::TpcB => Kind::TpcB.scale(data_bytes),
            Self::TpcC => Kind::TpcC.scale(data_bytes),
            Self::Tatp => tatp::subscribers(data_bytes),
        }
    }
}
