//! `libaquifer_sqlite.so`: SQLite's databases in files of a volume, for programs that were not changed. The library is a loadable extension of SQLite,
//! and if it is preloaded, its VFS is the default one. SQLite itself is the program's: nothing of it is in here.
//!
//! | file | noun |
//! |---|---|
//! | `entry` | how SQLite comes to know the VFS: as an extension, or in front of `sqlite3_open` |
//! | `api` | the functions of SQLite that are called |
//! | `raw`, `codes` | SQLite's structures and numbers |
//! | `vfs` | the methods of the VFS; `host` has those that the program's own VFS carries out |
//! | `volumes` | volumes that are open in this process, and whose file a name means |
//! | `mapped` | databases as memory |
//! | `names` | files by path |
//! | `file`, `io` | an open file, with the writes that wait for a commit, and its methods |
//! | `control` | what SQLite says about a file besides reading and writing it |
//! | `locks`, `wal_index` | what the connections to a database share |
//!
//! # Rules
//! A volume has one process that has it open, so locks and the index of a write-ahead log are in that process's memory. What one crash of the volume
//! keeps is a moment of all its files; `io` has what follows for SQLite.

mod api;
mod codes;
mod control;
mod entry;
mod file;
mod host;
mod io;
mod locks;
mod mapped;
mod names;
mod raw;
mod vfs;
mod volumes;
mod wal_index;
