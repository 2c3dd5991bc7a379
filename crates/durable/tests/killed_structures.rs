//! Structures of bytes of a process that is killed by SIGKILL while it changes them, again and again on the same file: they are those
//! of the first n transactions, and nothing else is in the heap.
//!
//! The child is this test itself, told by the environment to be one. `AQUIFER_KILLS` is the number of rounds.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use aquifer_base::HomeAddress;
use aquifer_durable::structures::{BytesMap, BytesQueue, BytesTree};
use aquifer_durable::{
    Backing, DurableHeap, Options, Ref, Result, Roots, Transaction, Typed, durable_struct,
};

const CHILD: &str = "AQUIFER_STRUCTURES_CHILD";

durable_struct! {
    struct Root {
        map: BytesMap,
        tree: BytesTree,
        queue: BytesQueue,
        /// The number of the last transaction.
        number: u64,
    }
}

fn open(path: &Path) -> DurableHeap {
    let options = Options {
        capacity_bytes: 16 << 20,
        chunk_bytes: 64 << 10,
        backing: Backing::Memory,
        ..Options::default()
    };
    DurableHeap::open(path, &options).expect("opens")
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed >> 32
}

/// What the transaction `number` does: to this key, it gives this value or takes it out, and it takes a value out of the queue.
fn change(number: u64) -> (Vec<u8>, Option<Vec<u8>>, bool) {
    let dice = mix(number);
    let key = match dice % 3 {
        0 => format!("{}", dice >> 8 & 127),
        _ => format!("a key that goes on elsewhere, {}", dice >> 8 & 255),
    };
    let value = (dice >> 20 & 3 > 0).then(|| vec![number as u8; (dice >> 24 & 1023) as usize]);
    (key.into_bytes(), value, dice >> 40 & 1 == 0)
}

fn root(tx: &mut Transaction<'_>) -> Result<Ref<Root>> {
    if let Some(at) = tx.named_ref("structures")? {
        return Ok(at);
    }
    let (map, tree) = (BytesMap::create(tx)?, BytesTree::create(tx)?);
    let queue = BytesQueue::create(tx)?;
    let at = tx.create(Root { map, tree, queue, number: 0 })?;
    tx.set_named_ref("structures", Some(at))?;
    Ok(at)
}

fn step(tx: &mut Transaction<'_>) -> Result<u64> {
    let at = root(tx)?;
    let Root { map, tree, queue, number } = tx.get(at)?;
    let number = number + 1;
    let (key, value, pops) = change(number);
    match value {
        Some(value) => {
            map.put(tx, &key, &value)?;
            tree.put(tx, &key, &value)?;
            queue.push(tx, &value)?;
        }
        None => drop((map.remove(tx, &key)?, tree.remove(tx, &key)?)),
    }
    if pops {
        queue.pop(tx)?;
    }
    tx.set_field(at, Root::FIELDS.number, number)?;
    Ok(number)
}

/// Commits without end and says so after each one.
fn child(path: &Path) {
    let heap = open(path);
    let mut out = std::io::stdout().lock();
    loop {
        let number = heap.transaction(step).expect("there is room");
        writeln!(out, "{number}").and_then(|()| out.flush()).expect("the parent reads");
    }
}

/// The number of the last transaction, when all is as the first ones have left it.
fn check(tx: &mut Transaction<'_>) -> Result<u64> {
    let at = root(tx)?;
    let Root { map, tree, queue, number } = tx.get(at)?;
    let (mut model, mut waiting) = (BTreeMap::new(), VecDeque::new());
    for n in 1..=number {
        let (key, value, pops) = change(n);
        match value {
            Some(value) => {
                waiting.push_back(value.clone());
                model.insert(key, value);
            }
            None => drop(model.remove(&key)),
        }
        if pops {
            waiting.pop_front();
        }
    }
    let mut next = tree.first(tx)?;
    for (key, value) in &model {
        let (found, stored) = next.expect("as many as in the model");
        assert_eq!((&found, &stored.load(tx)?), (key, value));
        assert_eq!(map.get(tx, key)?.as_ref(), Some(value));
        next = tree.next(tx, key)?;
    }
    assert_eq!(next, None);
    assert_eq!([map.len(tx)?, tree.len(tx)?], [model.len() as u64; 2]);
    assert_eq!(queue.len(tx)?, waiting.len() as u64);
    for (n, value) in waiting.iter().enumerate().step_by(17) {
        let stored = queue.nth(tx, n as u64)?.expect("as many as in the model");
        assert_eq!(stored.load(tx)?, *value);
    }
    Ok(number)
}

/// Rounds after which all is taken down for good: the queue grows with each one.
const ROUNDS_TOGETHER: u64 = 12;

/// Takes all down; nothing must be left.
fn take_down(tx: &mut Transaction<'_>) -> Result<()> {
    let at = root(tx)?;
    let Root { map, tree, queue, .. } = tx.get(at)?;
    map.destroy(tx)?;
    tree.destroy(tx)?;
    queue.destroy(tx)?;
    tx.set_named_ref::<Root>("structures", None)?;
    tx.delete(at)?;
    assert_eq!(tx.next_object(HomeAddress(0))?, None, "an object is left");
    Ok(())
}

#[test]
fn structures_are_whole_after_a_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    let rounds: u64 = std::env::var("AQUIFER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "structures_are_whole_after_a_kill", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test again");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // The first lines are the test runner's.
        let mut numbers = lines.map_while(std::io::Result::ok).filter_map(|line| line.parse::<u64>().ok());
        let wanted = 1 + mix(round) % 300;
        let acknowledged = numbers.by_ref().take(wanted as usize).last().expect("the child commits");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        let acknowledged = numbers.last().unwrap_or(acknowledged);
        let heap = open(&path);
        let number = heap.transaction(check).expect("a heap");
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged} are there");
        let mut tx = heap.begin();
        take_down(&mut tx).expect("it is all there");
        if (round + 1) % ROUNDS_TOGETHER == 0 {
            tx.commit().expect("it only frees");
            // Of the heap itself there is the table of areas.
            assert!(heap.usage().live_bytes < 1 << 20, "round {round}: {:?}", heap.usage());
        }
    }
}
