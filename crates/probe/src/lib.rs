//! What a flash device really does, and what machine to build around it.
//!
//! A [`Report`](report::Report) holds everything that was measured of one target, round by round. Whatever people look
//! at - pages, tables, comparisons, advice - is made from a report and from nothing else.
//!
//! Source: Petrov, Gottstein, Ivanov, Buchmann: Using flash SSDs as primary database storage, 2010.
#![forbid(unsafe_code)]

pub mod advice;
mod cells;
pub mod compare;
pub mod control;
pub mod economics;
pub mod error;
pub mod fio;
pub mod load;
mod machine;
pub mod measure;
mod merged;
pub mod plan;
pub mod render;
pub mod report;
pub mod steady;
pub mod target;
