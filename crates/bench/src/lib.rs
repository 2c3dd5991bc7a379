//! Workloads, baselines and peers side by side.
//!
//! A question that is put to several peers is a study ([`mod@study`]): options, turns, children, records, tables, plots and
//! promises are the same for all of them.
//!
//! | studies | of |
//! |---|---|
//! | [`mod@micro`], [`overhead`], [`mod@references`], [`write_amp`], [`budget`] | an array of small objects, larger than RAM, and single mechanisms of the heap |
//! | [`mod@memcached`], [`mod@corpus`] | servers and programs of others |
//! | [`durable`] | transactions on the durable heap and its peers |
//! | [`mod@volume`], with [`sqlite`] | mapped files, and databases in them |
//! | [`mod@remote`], [`mod@far`], [`mod@recover`] | memory of other machines, and what happens when a donor fails |
//! | [`probe_fio`] | the device |
//!
//! An array of objects is filled and accessed by [`workload`] as [`distribution`] says, and every object that is read is
//! proven ([`verified`], [`contents`], [`ledger`], [`payload`]); [`peer`] has one file for each system that can provide the
//! array. Each peer runs in a process ([`runner`], [`child`]) and a control group of its own ([`mod@cgroup`] and what it is
//! made of in [`controller`], [`group_dir`], [`mod@disk_limit`]; [`swap`], [`zswap`]).

pub mod all;
pub mod budget;
pub mod cgroup;
pub mod child;
pub mod cleanup;
pub mod contents;
pub mod controller;
pub mod corpus;
pub mod device;
pub mod disk_limit;
pub mod distribution;
pub mod donors;
pub mod durable;
pub mod error;
pub mod far;
pub mod group_dir;
pub mod io;
pub mod ledger;
pub mod machine;
pub mod measure;
pub mod memcached;
pub mod micro;
pub mod objects;
pub mod omissions;
pub mod overhead;
pub mod payload;
pub mod peer;
pub mod probe_fio;
pub mod process;
pub mod programs;
pub mod progress;
pub mod proof;
pub mod recover;
pub mod references;
pub mod remote;
pub mod rest;
pub mod runner;
pub mod scale;
pub mod server;
pub mod service;
pub mod spawn;
pub mod sqlite;
pub mod study;
pub mod swap;
pub mod theory;
pub mod verified;
pub mod volume;
pub mod workdir;
pub mod workload;
pub mod write_amp;
pub mod zswap;

pub use error::{Error, Result};

/// The random numbers of benchmarks.
pub mod rng {
    pub use aquifer_base::random::{Random as Rng, mix};
}
