//! Workloads, baselines and peers side by side.
//!
//! The centre is an array of small objects, larger than the RAM that a peer is given
//! ([`objects`]). [`workload`] fills it and lets threads read and write it as [`distribution`]
//! says, and proves every object that it reads ([`verified`], [`contents`], [`ledger`]); [`peer`] has one file for each system that can provide the array. [`micro`]
//! orchestrates: each peer runs in a process and a control group of its own ([`runner`],
//! [`child`], [`measure`], [`mod@cgroup`] and what it is made of in [`controller`], [`group_dir`], [`mod@disk_limit`]; [`swap`]) and they take turns. [`overhead`],
//! [`mod@references`], [`write_amp`] and [`budget`] look at one property of the library each. [`mod@memcached`] puts a real
//! [`server`] under load, also with [`zswap`]. [`durable`] looks at transactions on the durable heap and its peers, [`mod@volume`] at mapped
//! files, and with [`sqlite`] at databases, [`mod@far`] at unchanged programs on the RAM of other machines, [`mod@recover`] at what they do when a donor fails.
//!
//! Most of these are studies ([`mod@study`]), which have options, turns, children, records and tables in common; the others have them of their own, and
//! become studies one by one. All results are JSON lines ([`study::Record`], [`sample`]); [`table`] and [`study::plot()`] read nothing else.

pub mod all;
pub mod budget;
pub mod cgroup;
pub mod child;
pub mod cleanup;
pub mod contents;
pub mod controller;
pub mod device;
pub mod disk_limit;
pub mod distribution;
pub mod donors;
pub mod durable;
pub mod error;
pub mod far;
pub mod flip;
pub mod group_dir;
pub mod io;
pub mod latency;
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
pub mod rng;
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
