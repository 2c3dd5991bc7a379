//! A process that is killed by SIGKILL while it commits, again and again on the same file: what it had acknowledged is there, and
//! of the transaction under way all or nothing.
//!
//! The child is this test itself, told by the environment to be one. `AQUIFER_KILLS` is the number of rounds.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use aquifer_base::HomeAddress;
use aquifer_durable::{Backing, DurableHeap, Options, Result, Transaction};

const CHILD: &str = "AQUIFER_DURABLE_CHILD";
const OBJECT_BYTES_MAX: u64 = 3000;
/// The first transactions where there are many slots: most of these have an object then.
const FILLED: u64 = 30_000;

const SLOTS: u64 = 64;

/// Objects of a heap. With many, a pass of the cleaner has several chunks, and two threads clean.
fn slots(path: &Path) -> u64 {
    if path.ends_with("passes") { 12 << 10 } else { SLOTS }
}

fn open(path: &Path) -> DurableHeap {
    // The name says it, because the child must do the same.
    let backing = if path.ends_with("flash") { Backing::Flash } else { Backing::Memory };
    let checkpoint_bytes = if path.ends_with("checkpoints") { 256 << 10 } else { 0 };
    let (capacity_bytes, chunk_bytes) = (if slots(path) == SLOTS { 4 << 20 } else { 40 << 20 }, 64 << 10);
    let options = Options { capacity_bytes, chunk_bytes, backing, checkpoint_bytes, ..Options::default() };
    DurableHeap::open(path, &options).expect("opens")
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ mixed >> 32
}

/// The slot and the size of the object that the transaction `number` puts there.
fn change(number: u64, slots: u64) -> (u64, u64) {
    (mix(number) % slots, 1 + mix(number ^ 0xABCD) % OBJECT_BYTES_MAX)
}

/// The root object: the number of the last transaction, then a reference for each slot.
fn slot_home(root: HomeAddress, slot: u64) -> HomeAddress {
    root.plus_bytes(8 + slot * 8)
}

/// The transaction `number`: another object in a slot, and the number at the root.
fn commit(tx: &mut Transaction<'_>, number: u64, slots: u64) -> Result<()> {
    let root = match tx.root()? {
        Some(root) => root,
        None => {
            let root = tx.alloc(8 + slots * 8)?;
            tx.set_root(root)?;
            root
        }
    };
    let (slot, bytes) = change(number, slots);
    let home = slot_home(root, slot);
    let old = tx.load_u64(home)?;
    if old != 0 {
        tx.free(HomeAddress(old))?;
    }
    let object = tx.alloc(bytes)?;
    tx.store(object, &vec![number as u8 | 1; bytes as usize])?;
    tx.store_u64(home, object.0)?;
    tx.store_u64(root, number)
}

/// Commits without end and says so after each one.
fn child(path: &Path) {
    let heap = open(path);
    let mut out = std::io::stdout().lock();
    let mut number = last(&heap);
    loop {
        number += 1;
        heap.transaction(|tx| commit(tx, number, slots(path))).expect("there is room");
        writeln!(out, "{number}").and_then(|()| out.flush()).expect("the parent reads");
    }
}

fn last(heap: &DurableHeap) -> u64 {
    heap.transaction(|tx| tx.root()?.map_or(Ok(0), |root| tx.load_u64(root))).expect("a heap")
}

/// Whether all objects are those of the first `number` transactions.
fn check(heap: &DurableHeap, number: u64, slots: u64) {
    let change = |number| change(number, slots);
    let mut newest = vec![0; slots as usize];
    for n in 1..=number {
        newest[change(n).0 as usize] = n;
    }
    for (slot, &n) in newest.iter().enumerate() {
        let bytes = heap.transaction(|tx| {
            let Some(root) = tx.root()? else { return Ok(Vec::new()) };
            let home = tx.load_u64(slot_home(root, slot as u64))?;
            let mut bytes = vec![0; if home == 0 { 0 } else { change(n).1 as usize }];
            tx.load(HomeAddress(home), &mut bytes)?;
            Ok(bytes)
        });
        let bytes = bytes.expect("it is allocated");
        assert!(n == 0 || bytes.len() as u64 == change(n).1, "slot {slot} is empty after transaction {n}");
        assert!(
            bytes.iter().all(|&byte| byte == n as u8 | 1),
            "slot {slot} after transaction {n} of {number}"
        );
    }
}

#[test]
fn what_was_acknowledged_is_there() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    kill_again_and_again("memory");
    kill_again_and_again("checkpoints");
    kill_again_and_again("flash");
    kill_again_and_again("passes");
}

fn kill_again_and_again(name: &str) {
    let rounds: u64 = std::env::var("AQUIFER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    if slots(&path) > SLOTS {
        let heap = open(&path);
        (1..=FILLED).for_each(|n| heap.transaction(|tx| commit(tx, n, slots(&path))).expect("there is room"));
    }
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "what_was_acknowledged_is_there", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test again");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let wanted = 1 + mix(round) % 300;
        // The first lines are the test runner's.
        let numbers =
            lines.by_ref().map_while(std::io::Result::ok).filter_map(|line| line.parse::<u64>().ok());
        let mut acknowledged = numbers.take(wanted as usize).last().expect("the child commits");
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        // What it had said before it was killed.
        let rest = lines.map_while(std::io::Result::ok).filter_map(|line| line.parse::<u64>().ok());
        acknowledged = rest.last().unwrap_or(acknowledged).max(acknowledged);
        let heap = open(&path);
        let number = last(&heap);
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged} are there");
        check(&heap, number, slots(&path));
    }
}
