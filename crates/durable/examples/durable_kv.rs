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

use aquifer_durable::structures::HashMap;
use aquifer_durable::{Access, DurableHeap, Options, Ref, Result, Typed, Value, durable_struct};
use clap::{Parser, Subcommand};

/// Bytes of a key, or of a value, at most.
const TEXT_BYTES_MAX: usize = 1 << 20;

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
    /// The first object of the heap.
    struct Root {
        /// The first record for each hash of a key.
        records: HashMap<u64, Ref<Record>>,
        count: u64,
    }
}

durable_struct! {
    /// What a record begins with; the bytes of the key and of the value are behind it.
    struct Record {
        /// Another key with the same hash.
        next: Option<Ref<Record>>,
        key_bytes: u32,
        value_bytes: u32,
    }
}

/// FNV-1a (Fowler, Noll and Vo). Keys may meet: records know the whole key.
fn hash_of(key: &str) -> u64 {
    key.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

/// The root of a heap, which is made if it is new.
fn root(heap: &DurableHeap) -> Result<Ref<Root>> {
    heap.transaction(|tx| {
        if let Some(root) = tx.root_ref()? {
            return Ok(root);
        }
        let records = HashMap::create(tx)?;
        let root = tx.create(Root { records, count: 0 })?;
        tx.set_root_ref(root)?;
        Ok(root)
    })
}

/// The key and the value of a record.
fn read(tx: &mut impl Access, at: Ref<Record>) -> Result<(Record, String, String)> {
    let record = tx.get(at)?;
    let mut text = vec![0; (record.key_bytes + record.value_bytes) as usize];
    tx.load(at.home().plus_bytes(Record::BYTES as u64), &mut text)?;
    let value = String::from_utf8_lossy(&text[record.key_bytes as usize..]).into_owned();
    text.truncate(record.key_bytes as usize);
    Ok((record, String::from_utf8_lossy(&text).into_owned(), value))
}

fn get(tx: &mut impl Access, root: &Root, key: &str) -> Result<Option<String>> {
    let mut next = root.records.get(tx, hash_of(key))?;
    while let Some(at) = next {
        let (record, other, value) = read(tx, at)?;
        if other == key {
            return Ok(Some(value));
        }
        next = record.next;
    }
    Ok(None)
}

fn set(tx: &mut impl Access, root: &Root, key: &str, value: &str) -> Result<()> {
    delete(tx, root, key)?;
    let text = [key.as_bytes(), value.as_bytes()].concat();
    let at = Ref::from_home(tx.alloc((Record::BYTES + text.len()) as u64)?);
    let next = root.records.insert(tx, hash_of(key), at)?;
    tx.set(at, Record { next, key_bytes: key.len() as u32, value_bytes: value.len() as u32 })?;
    tx.store(at.home().plus_bytes(Record::BYTES as u64), &text)
}

/// Deletes a key; returns whether it was there.
fn delete(tx: &mut impl Access, root: &Root, key: &str) -> Result<bool> {
    let (mut before, mut next) = (None, root.records.get(tx, hash_of(key))?);
    while let Some(at) = next {
        let (record, other, _) = read(tx, at)?;
        if other == key {
            match (before, record.next) {
                (Some(before), behind) => tx.set_field(before, Record::FIELDS.next, behind)?,
                (None, Some(behind)) => drop(root.records.insert(tx, hash_of(key), behind)?),
                (None, None) => drop(root.records.remove(tx, hash_of(key))?),
            }
            return tx.delete(at).map(|()| true);
        }
        (before, next) = (Some(at), record.next);
    }
    Ok(false)
}

/// All keys with their values, in the order of the keys.
fn list(tx: &mut impl Access, root: &Root) -> Result<Vec<(String, String)>> {
    let firsts = root.records.iter(tx)?.collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for (_, first) in firsts {
        let mut next = Some(first);
        while let Some(at) = next {
            let (record, key, value) = read(tx, at)?;
            all.push((key, value));
            next = record.next;
        }
    }
    all.sort_unstable();
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
    let at = root(&heap)?;
    let mut out = stdout();
    match &arguments.command {
        Command::Set { key, value } => {
            if key.len().max(value.len()) > TEXT_BYTES_MAX {
                return Err(format!("keys and values have at most {TEXT_BYTES_MAX} bytes").into());
            }
            heap.transaction(|tx| tx.get(at).and_then(|root| set(tx, &root, key, value)))?;
        }
        Command::Get { key } => {
            match heap.transaction(|tx| tx.get(at).and_then(|root| get(tx, &root, key)))? {
                Some(value) => writeln!(out, "{value}")?,
                None => return Ok(false),
            }
        }
        Command::Del { key } => {
            return Ok(heap.transaction(|tx| tx.get(at).and_then(|root| delete(tx, &root, key)))?);
        }
        Command::List => {
            for (key, value) in heap.transaction(|tx| tx.get(at).and_then(|root| list(tx, &root)))? {
                writeln!(out, "{key}\t{value}")?;
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
