//! Keys and values in a file that survive whatever happens to the program.
//!
//! ```text
//! durable_kv FILE set KEY VALUE
//! durable_kv FILE get KEY
//! durable_kv FILE del KEY
//! durable_kv FILE list
//! durable_kv FILE count STEPS
//! ```
//!
//! `count` counts on from where it was the last time, and prints every number when it is durable. Kill it with `kill -9` as often as you
//! like and start it again: no number that was printed is counted twice.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_durable::structures::BytesTree;
use aquifer_durable::{DurableHeap, Load, Options, Ref, Result, Roots, Typed, durable_struct};
use clap::{Parser, Subcommand};

/// Keys and values in a file that survive whatever happens to the program.
#[derive(Parser)]
struct Arguments {
    /// The file; it is made if there is none.
    file: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Give a key a value.
    Set { key: String, value: String },
    /// Print the value of a key.
    Get { key: String },
    /// Delete a key.
    Del { key: String },
    /// Print all keys with their values.
    List,
    /// Count on by STEPS, and print each number when it is durable.
    Count { steps: u64 },
}

durable_struct! {
    /// The root of the heap.
    struct Root {
        texts: BytesTree,
        count: u64,
    }
}

/// The root of a heap, which is made if it is new.
fn root(heap: &DurableHeap) -> Result<(Ref<Root>, BytesTree)> {
    heap.transaction(|tx| {
        if let Some(at) = tx.named_ref::<Root>("store")? {
            return Ok((at, tx.get(at)?.texts));
        }
        let texts = BytesTree::create(tx)?;
        let at = tx.create(Root { texts, count: 0 })?;
        tx.set_named_ref("store", Some(at))?;
        Ok((at, texts))
    })
}

/// All keys with their values, in the order of the keys.
fn list(tx: &mut impl Load, texts: BytesTree) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut all, mut next) = (Vec::new(), texts.first(tx)?);
    while let Some((key, value)) = next {
        next = texts.next(tx, &key)?;
        all.push((key, value.load(tx)?));
    }
    Ok(all)
}

fn count(heap: &DurableHeap, root: Ref<Root>, steps: u64) -> std::result::Result<(), Box<dyn Error>> {
    for _ in 0..steps {
        let number = heap.transaction(|tx| {
            let number = tx.get_field(root, Root::FIELDS.count)? + 1;
            tx.set_field(root, Root::FIELDS.count, number)?;
            Ok(number)
        })?;
        // The transaction has committed: whatever happens now, this number stays.
        writeln!(stdout(), "{number}")?;
    }
    Ok(())
}

/// Does what was asked for; returns whether the key was there.
fn run(arguments: &Arguments) -> std::result::Result<bool, Box<dyn Error>> {
    let heap = DurableHeap::open(&arguments.file, &Options::default())?;
    let (at, texts) = root(&heap)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut out = stdout();
    match &arguments.command {
        Command::Set { key, value } => {
            heap.transaction(|tx| texts.put(tx, key.as_bytes(), value.as_bytes()))?;
        }
        Command::Get { key } => match heap.read(|tx| texts.get(tx, key.as_bytes()))? {
            Some(value) => writeln!(out, "{}", text(&value))?,
            None => return Ok(false),
        },
        Command::Del { key } => return Ok(heap.transaction(|tx| texts.remove(tx, key.as_bytes()))?),
        Command::List => {
            for (key, value) in heap.read(|tx| list(tx, texts))? {
                writeln!(out, "{}\t{}", text(&key), text(&value))?;
            }
        }
        Command::Count { steps } => count(&heap, at, *steps)?,
    }
    Ok(true)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("durable_kv: there is no such key");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("durable_kv: {error}");
            ExitCode::from(2)
        }
    }
}
