//! The volume: files on flash, translated by one table (Huang et al., "Unified Address Translation for Memory-Mapped SSDs with FlashMap", ISCA
//! 2015).
//!
//! | file | noun |
//! |---|---|
//! | `word`, `key` | the entry that translates a page, and the page's name |
//! | `node`, `table` | 512 entries; all of them, as one tree for each file |
//! | `medium` | segments of pages: a device, or raw flash |
//! | `flash`, `counted` | reading pages and verifying them; how much was read and written |
//! | `block`, `patch`, `anchor` | what stands on the medium besides pages |
//! | `segments`, `writer`, `displaced` | what is needed of each segment; the ends of the log; what was written elsewhere, because a segment failed |
//! | `frame`, `cache`, `trims` | pages in RAM, and pages that are zeros again |
//! | `sync` | their locks, and that of commits |
//! | `core` | these together |
//! | `background` | a thread that works ahead |
//! | `ahead` | pages that are read before they are asked for |
//! | `commit`, `checkpoint`, `cleaner`, `recovery` | how changes become durable, and room is made |
//! | `salvage` | what the log still has where the table is damaged |
//! | `wear` | segments that failed, and segments that are erased too seldom |
//! | `inode`, `inodes` | what is known of files |
//! | `folder_page`, `index` | names on flash: the bytes of a page of a folder; in RAM: in which page each name is |
//! | `xattrs` | extended attributes of files |
//! | `mapping` | files as memory |
//! | `serve` | one process owns a volume, others map its files |
//! | `image` | volumes by path |
//! | `check` | proof that all of it fits together |
//! | `usage` | what the table takes for the pages of a file |
//! | `stats` | numbers of an open volume, here and for other processes |
//! | `files`, `data`, `reserve`, `volume` | what users of a volume call |
//! | `names` | the same for names: looked up, made, listed, moved, removed |
//! | `path`, `access` | paths, and who may do what |
//! | `session` | the same calls by path, for a user |
//! | `layered` | with the feature of that name: the conventional stack on the same parts, for benchmarks |
//!
//! Each commit is a moment of the whole volume. The table is the only map from files to flash: there is no extent tree beside it and no translation
//! layer below it. `docs/reference/format.md` has the bytes.

pub mod access;
mod ahead;
pub mod anchor;
mod background;
pub mod block;
mod cache;
mod check;
mod checkpoint;
mod cleaner;
mod commit;
mod core;
mod counted;
mod data;
mod displaced;
mod error;
mod files;
mod flash;
pub mod folder_page;
mod followed;
mod frame;
mod grace;
pub mod image;
mod index;
mod inode;
mod inodes;
mod key;
#[cfg(feature = "layered")]
pub mod layered;
mod mapping;
pub mod medium;
mod names;
mod node;
mod order;
pub mod patch;
pub mod path;
mod readers;
mod recovery;
mod reserve;
mod room;
mod salvage;
mod segments;
pub mod serve;
mod session;
mod stats;
mod sums;
mod sync;
mod table;
mod trims;
mod twins;
mod usage;
mod volume;
mod walks;
mod wear;
pub mod word;
mod writer;
pub mod xattrs;

pub use aquifer_sys::memory::Protection;
pub use background::Background;
pub use check::{Depth, Findings};
pub use error::{Result, VolumeError};
pub use inode::{Inode, Kind, SIZE_BYTES_MAX, Time, device_number, device_parts};
pub use key::{Ino, PageKey};
pub use mapping::Mapping;
pub use names::{IfTaken, Listed, check_name};
pub use recovery::Recovered;
pub use salvage::{Doubt, Salvaged, Source};
pub use session::{OpenFile, OpenHow, Session, SetTime};
pub use stats::Stats;
pub use usage::TableUse;
pub use volume::{Attributes, FRAME_BYTES, OpenOptions, RAM_BYTES_MIN, Space, Volume};
pub use word::PAGE_BYTES;
pub use xattrs::SetXattr;
