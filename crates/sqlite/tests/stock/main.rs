//! The library under stock programs: the `sqlite3` command, and Python.

mod command;
mod common;
mod differential;
mod killed;
mod python;
