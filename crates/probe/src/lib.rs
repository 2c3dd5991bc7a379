//! What a flash device really does, and what machine to build around it.
//!
//! A [`Report`](report::Report) holds everything that was measured of one target, round by round. Whatever people look
//! at - pages, tables, comparisons, advice - is made from a report and from nothing else.
//!
//! Source: Petrov, Gottstein, Ivanov, Buchmann: Using flash SSDs as primary database storage, 2010.
#![forbid(unsafe_code)]

mod cells;
pub mod compare;
pub mod fio;
mod merged;
pub mod render;
pub mod report;
