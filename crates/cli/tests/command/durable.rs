//! `aquifer durable` on files that are in order, damaged, in use, and none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use aquifer_durable::inspect::HeapFile;
use aquifer_durable::persist::MemoryFile;
use aquifer_durable::superblock::Superblock;
use aquifer_durable::{Backing, DurableHeap, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::{command, complaint, name, run, text};

const CHUNK_BYTES: u64 = 64 << 10;
const HEADER_BYTES: u64 = 32;
const SUPERBLOCK_BYTES: u64 = 4096;

fn options() -> Options {
    Options { chunk_bytes: CHUNK_BYTES as u32, backing: Backing::Memory, ..Options::default() }
}

/// A heap with objects of two sizes, some of which were freed, in a folder that goes when the test ends.
fn heap(objects: u64) -> (TempDir, PathBuf, DurableHeap) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("heap.aq");
    let heap = DurableHeap::open(&path, &options()).expect("a new heap");
    for n in 0..objects {
        let made = heap.transaction(|tx| {
            let bytes = if n % 2 == 0 { 24 } else { 5000 };
            let (kept, gone) = (tx.alloc(bytes)?, tx.alloc(bytes)?);
            tx.store(kept, &vec![n as u8 + 1; bytes as usize])?;
            tx.store_u64(gone, n)?;
            Ok(gone)
        });
        let gone = made.expect("room");
        heap.transaction(|tx| tx.free(gone)).expect("it is there");
    }
    (folder, path, heap)
}

fn closed(objects: u64) -> (TempDir, PathBuf) {
    let (folder, path, heap) = heap(objects);
    close(heap, &path);
    (folder, path)
}

/// Closes a heap and waits until its lock is free: children that other tests have just started hold it until they run their program.
fn close(heap: DurableHeap, path: &Path) {
    drop(heap);
    while !HeapFile::open(path).and_then(|file| file.lock()).expect("a heap") {
        std::thread::yield_now();
    }
}

fn ask(question: &str, path: &Path) -> Output {
    run(&["durable", question, name(path)])
}

/// Asks of a file that is in order; what is said.
fn told(question: &str, path: &Path) -> String {
    let output = ask(question, path);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Asks of a file that is damaged; what is said.
fn damage(question: &str, path: &Path) -> String {
    let output = ask(question, path);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn json(path: &Path) -> Value {
    let output = run(&["durable", "stats", name(path), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = text(&output.stdout);
    assert_eq!(line.lines().count(), 1);
    serde_json::from_str(&line).expect("JSON")
}

/// Changes bytes of a file.
fn overwrite(path: &Path, offset: u64, with: &[u8]) {
    let mut bytes = fs::read(path).expect("there");
    bytes[offset as usize..offset as usize + with.len()].copy_from_slice(with);
    fs::write(path, bytes).expect("written");
}

#[test]
fn all_objects_are_counted() {
    let (_folder, path) = closed(20);
    let stats = json(&path);
    let number = |field: &str| stats[field].as_u64().expect("a number");
    assert_eq!((number("version"), number("objects"), number("chunk_bytes")), (2, 20, CHUNK_BYTES));
    let payload = 10 * (24 + 5000);
    assert!((payload..payload + 4096).contains(&number("live_bytes")), "{stats}");
    assert_eq!(number("file_bytes"), fs::metadata(&path).expect("there").len());
    let chunks = number("chunks_in_use") + number("chunks_of_checkpoint") + number("chunks_free");
    assert_eq!(SUPERBLOCK_BYTES + chunks * CHUNK_BYTES, number("file_bytes"));
    let used = number("live_bytes") as f64 / (number("chunks_in_use") * CHUNK_BYTES) as f64;
    assert!((stats["utilisation"].as_f64().expect("a number") - used).abs() < 1e-9);
    // Each transaction is a block and a version; the first one makes the heap.
    assert!(number("newest_version") > 40 && number("blocks") > 40 && number("map_bytes") > 0, "{stats}");
    assert_eq!(stats["file"], name(&path));
}

#[test]
fn people_see_the_same_numbers() {
    let (_folder, path) = closed(20);
    let table = told("stats", &path);
    let row = |label: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(label)).expect("a row");
        line.trim_start()[label.len()..].trim().to_owned()
    };
    assert_eq!((row("objects").as_str(), row("chunk  ").as_str()), ("20", "64 KiB"), "{table}");
    assert_eq!(row("newest version"), json(&path)["newest_version"].to_string());
    assert!(row("live bytes").contains("% of the chunks in use"), "{table}");
}

#[test]
fn a_file_that_is_looked_at_stays_as_it_is() {
    let (_folder, path) = closed(20);
    let before =
        (fs::read(&path).expect("there"), fs::metadata(&path).expect("there").modified().expect("a time"));
    let said = told("check", &path);
    assert!(said.contains("in order") && said.contains("20 objects"), "{said}");
    told("stats", &path);
    told("dump", &path);
    let after =
        (fs::read(&path).expect("there"), fs::metadata(&path).expect("there").modified().expect("a time"));
    assert!(before == after);
}

#[test]
fn a_dump_shows_what_was_done() {
    let (_folder, path, heap) = heap(0);
    let home = heap.transaction(|tx| {
        let home = tx.alloc(400)?;
        tx.store_u64(home, 7)?;
        Ok(home)
    });
    let home = home.expect("room");
    heap.transaction(|tx| tx.free(home)).expect("it is there");
    // Larger than a chunk: in parts.
    let large = heap.transaction(|tx| {
        let large = tx.alloc(100_000)?;
        tx.store(large, &vec![1; 100_000])?;
        Ok(large)
    });
    large.expect("room");
    close(heap, &path);
    let dump = told("dump", &path);
    let has = |line: &str| {
        assert!(dump.lines().any(|found| found.trim_start().starts_with(line)), "{line}\n{dump}")
    };
    has("superblock: version 2, id 0x");
    has("chunk 0 at 4096: generation ");
    has("4128: version 1, a transaction, ");
    has(&format!("home {:#012x}, grains 2: bytes, at ", home.0));
    has(&format!("home {:#012x}, grains 98: zeros", home.0 + 8));
    has(&format!("home {:#012x}, grains 100: freed", home.0));
    assert!(
        dump.contains(", part of a transaction, ") && dump.contains(", last part of a transaction, "),
        "{dump}"
    );
    assert!(!dump.contains("DAMAGED"), "{dump}");
}

#[test]
fn damage_is_found_with_its_place() {
    let (_folder, path) = closed(20);
    let first_block = SUPERBLOCK_BYTES + HEADER_BYTES;
    overwrite(&path, first_block + 9, b"damage");
    let said = damage("check", &path);
    assert!(said.contains(&format!("damaged at byte {first_block}")), "{said}");
    assert_eq!(damage("stats", &path), said);
    let dump = damage("dump", &path);
    assert!(dump.contains(&format!("  {first_block}: DAMAGED, ")), "{dump}");
    assert!(dump.contains("version 2, "), "blocks behind it are shown\n{dump}");
}

#[test]
fn damage_to_headers_is_found() {
    let (_folder, path) = closed(20);
    overwrite(&path, SUPERBLOCK_BYTES + 17, b"damage");
    assert!(damage("check", &path).contains("damaged at byte 4096"));
    assert!(damage("dump", &path).contains("chunk 0 at 4096: DAMAGED"));
    overwrite(&path, 17, b"damage");
    for question in ["check", "stats", "dump"] {
        assert!(damage(question, &path).contains("damaged at byte 0: the checksum"), "{question}");
    }
}

/// The end of a chunk that the next one of its session says was durable.
#[test]
fn a_lost_end_of_a_chunk_is_found() {
    let (_folder, path) = closed(100);
    let dump = told("dump", &path);
    let (before, _) =
        dump.split_once(", durable up to its byte ").expect("a session went on with another chunk");
    let chunk =
        before.rsplit("before it chunk ").next().and_then(|text| text.split(' ').next()).expect("a number");
    let in_chunk = dump.split_once(&format!("chunk {chunk} at ")).expect("it is shown").1;
    let filled = in_chunk.split_once("filled up to ").expect("shown").0;
    let is_block = |line: &&str| line.starts_with("  ") && line.contains(": version ");
    let place = |line: &str| -> u64 {
        line.trim_start().split(':').next().expect("a place").parse().expect("a number")
    };
    let mut blocks = filled.lines().rev().filter(is_block).map(place);
    let (end, offset) = (blocks.next().expect("it was ended"), blocks.next().expect("it has blocks"));
    // What ends the chunk says that there was something before it; without that the next chunk does.
    overwrite(&path, offset, &[0; 8]);
    assert!(damage("check", &path).contains(&format!("damaged at byte {offset}")));
    overwrite(&path, end, &[0; 8]);
    assert!(damage("check", &path).contains(&format!("damaged at byte {offset}")));
    let dump = damage("dump", &path);
    assert!(
        dump.contains("DAMAGED: the last ") && dump.contains(&format!("of chunk {chunk} do not verify")),
        "{dump}"
    );
}

#[test]
fn a_heap_in_use_is_only_dumped() {
    let (_folder, path, heap) = heap(3);
    for question in ["check", "stats"] {
        let said = complaint(&["durable", question, name(&path)]);
        assert!(said.contains(name(&path)) && said.contains("in use by another process"), "{said}");
    }
    let output = ask("dump", &path);
    assert!(output.status.success() && text(&output.stdout).contains("version 1, a transaction"));
    assert!(text(&output.stderr).contains("a program has the heap open"));
    close(heap, &path);
    told("check", &path);
}

#[test]
fn a_heap_without_transactions_is_in_order() {
    let (_folder, path) = closed(0);
    let said = told("check", &path);
    assert!(said.contains("2 blocks in 1 chunk in use, 0 objects, newest version 2"), "{said}");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("there");
    file.set_len(SUPERBLOCK_BYTES).expect("cut");
    // The file says that it had a chunk.
    assert!(damage("check", &path).contains("at least 1"));
    // As after a crash that came before the first chunk, which nothing says anything of.
    fs::remove_file(&path).expect("there");
    let memory = MemoryFile::open(&path, SUPERBLOCK_BYTES).expect("made");
    Superblock { chunk_bytes: CHUNK_BYTES as u32, id: 7 }.create(&memory).expect("room");
    drop(memory);
    let said = told("check", &path);
    assert!(said.contains("0 blocks in 0 chunks in use, 0 objects, newest version 0"), "{said}");
    assert_eq!(json(&path)["utilisation"], 0.0);
    assert_eq!(fs::metadata(&path).expect("there").len(), SUPERBLOCK_BYTES, "nothing was made of it");
}

#[test]
fn what_is_no_heap_is_refused_and_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let missing = folder.path().join("missing");
    let letter = folder.path().join("letter");
    let empty = folder.path().join("empty");
    fs::write(&letter, "Dear reader").expect("written");
    fs::write(&empty, "").expect("written");
    for question in ["check", "stats", "dump"] {
        let said = |path: &Path| complaint(&["durable", question, name(path)]);
        assert!(said(&missing).contains("No such file"));
        assert!(said(&letter).contains("no durable heap"));
        assert!(said(&empty).contains("it is empty"));
        assert!(said(folder.path()).contains("no regular file"));
    }
    assert!(!missing.exists());
    assert_eq!(fs::read(&letter).expect("there"), b"Dear reader");
    assert_eq!(fs::metadata(&empty).expect("there").len(), 0);
}

#[test]
fn another_version_is_named() {
    let (_folder, path) = closed(1);
    overwrite(&path, 8, &[9]);
    assert!(complaint(&["durable", "check", name(&path)]).contains("its version is 9"));
}

/// What a check finds has a way out, which it names: the rest in a new file.
#[test]
fn what_is_left_is_salvaged() {
    let (folder, path) = closed(50);
    let target = folder.path().join("saved.aq");
    let salvage = || run(&["durable", "salvage", name(&path), name(&target)]);
    let out = salvage();
    assert!(out.status.success() && text(&out.stdout).contains("50 objects"), "{out:?}");
    // Never over what is there.
    let out = salvage();
    assert!(out.status.code() == Some(2) && text(&out.stderr).contains("saved.aq"), "{out:?}");
    fs::remove_file(&target).expect("there");
    let objects = json(&path)["objects"].as_u64();
    let bytes = fs::read(&path).expect("there");
    let object = bytes.windows(24).position(|window| window == [21; 24]).expect("object 20");
    overwrite(&path, object as u64, &[0x5A; 8]);
    let out = ask("check", &path);
    assert!(out.status.code() == Some(1) && text(&out.stderr).contains("aquifer durable salvage"), "{out:?}");
    let out = salvage();
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(
        text(&out.stderr).contains("the objects of transaction ") && text(&out.stdout).contains("1 losses"),
        "{out:?}"
    );
    let left = json(&target)["objects"].as_u64();
    assert!(objects == Some(50) && left >= Some(48) && left < objects, "{left:?} of {objects:?}");
    let files: Vec<_> =
        fs::read_dir(folder.path()).expect("there").map(|file| file.expect("there").file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

/// Whatever a file has. Programs that open this one take three times as much for its map.
#[test]
fn a_check_takes_little_memory() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("heap.aq");
    let options = Options { chunk_bytes: 1 << 20, ..options() };
    let heap = DurableHeap::open(&path, &options).expect("a new heap");
    let objects = 1500;
    let homes: Vec<_> = (0..objects)
        .map(|_| heap.transaction(|tx| tx.alloc(16 << 20)).expect("takes no room until it is written"))
        .collect();
    // Every second word of two whole areas, so that each is an extent of its own.
    for home in homes.iter().step_by(800) {
        for part in (0..16 << 20).step_by(1 << 16) {
            let stored = heap.transaction(|tx| {
                (part..part + (1 << 16)).step_by(8).try_for_each(|at| tx.store(home.plus_bytes(at), &[7; 4]))
            });
            stored.expect("room");
        }
    }
    let map_bytes = heap.usage().map_bytes;
    assert!(map_bytes > 24 << 20, "{map_bytes}");
    let live_bytes = heap.usage().live_bytes;
    close(heap, &path);
    let mut child = command(&["durable", "check", name(&path)]).spawn().expect("the command runs");
    let (mut most_bytes, mut looks) = (0, 0);
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break status;
        }
        // Of the command alone: what waits says counts this process, which it was before.
        let of_child = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let is_command = of_child.starts_with("Name:\taquifer\n");
        let most = of_child
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        if let Some(kib) = most.filter(|_| is_command) {
            (most_bytes, looks) = (kib << 10, looks + 1);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    println!("{most_bytes} bytes at most");
    assert!(status.success() && looks > 0, "{status}, {looks} looks");
    assert!(most_bytes < 64 << 20, "{most_bytes} bytes");
    let found = json(&path);
    assert_eq!(found["objects"].as_u64(), Some(objects));
    assert_eq!(found["live_bytes"].as_u64(), Some(live_bytes));
}
