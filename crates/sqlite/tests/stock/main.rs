//! The library under stock programs: the `sqlite3` command, and Python.

mod command;
mod common;
mod cuts;
mod differential;
mod killed;
mod python;
