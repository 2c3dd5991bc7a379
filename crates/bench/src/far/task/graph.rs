//! The graph of `volume pagerank`, from a file into memory.
//!
//! It is made once, beforehand: edges go to places all over it while it is made, which would take a program with too little RAM longer than what is
//! measured, and programs load their graphs.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use crate::error::{Error, Result};
use crate::volume::pagerank::Layout;
use crate::volume::pagerank::graph::Graph;

const SEED: u64 = 1;
const PIECE_BYTES: usize = 1 << 20;

/// Makes the largest graph of at most so many bytes; percents go to `tell`.
///
/// # Errors
/// [`Error::Input`] if that is too small for a graph.
pub fn make(bytes: u64, tell: &mut dyn FnMut(u64)) -> Result<(Layout, Graph)> {
    let too_small = |_| Error::Input("--data leaves no room for a graph".to_owned());
    let layout = Layout::of_bytes(bytes).map_err(too_small)?;
    Ok((layout, Graph::new(layout, SEED, tell)))
}

/// Writes the words of a graph to the file at `path`.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`].
pub fn write(path: &Path, bytes: u64, tell: &mut dyn FnMut(u64)) -> Result<()> {
    let (layout, graph) = make(bytes, tell)?;
    let file = File::create(path).map_err(Error::io("creating", path))?;
    let mut file = BufWriter::with_capacity(PIECE_BYTES, file);
    let written =
        (0..layout.vector(2)).try_for_each(|index| file.write_all(&graph.word(index).to_le_bytes()));
    // What is still to be written to the disk later would disturb what is measured.
    let synced = written.and_then(|()| file.into_inner()?.sync_all());
    synced.map_err(Error::io("writing", path))
}

/// The words of the file at `path`, in memory.
///
/// # Errors
/// [`Error::Io`], [`Error::Input`] if it is no such graph.
pub fn load(path: &Path, bytes: u64) -> Result<(Layout, Vec<AtomicU64>)> {
    let layout = Layout::of_bytes(bytes)?;
    let mut words = Vec::with_capacity(layout.vector(2));
    let mut file = File::open(path).map_err(Error::io("opening", path))?;
    let mut piece = vec![0; PIECE_BYTES];
    while words.len() < layout.vector(2) {
        let wanted = PIECE_BYTES.min((layout.vector(2) - words.len()) * 8);
        file.read_exact(&mut piece[..wanted]).map_err(Error::io("reading", path))?;
        let of_piece = piece[..wanted].as_chunks::<8>().0.iter();
        words.extend(of_piece.map(|word| AtomicU64::new(u64::from_le_bytes(*word))));
    }
    Ok((layout, words))
}
