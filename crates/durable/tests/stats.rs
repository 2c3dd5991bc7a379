//! Numbers of an open heap, here and for other processes.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use aquifer_durable::{DurableHeap, Options};

fn ask(socket: &Path, question: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    stream.write_all(question.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn commits_are_counted_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, socket) = (folder.path().join("heap.aq"), folder.path().join("heap.sock"));
    let heap =
        DurableHeap::open(&path, &Options { capacity_bytes: 32 << 20, ..Options::default() }).expect("opens");
    let server = heap.answer_at(&socket).expect("a socket");
    let before = heap.stats();
    for n in 0..20u64 {
        heap.transaction(|tx| {
            let home = tx.alloc(8)?;
            tx.store_u64(home, n)
        })
        .expect("commits");
    }
    let after = heap.stats();
    let commits = after.commits - before.commits;
    assert!((20..30).contains(&commits), "{commits}: those of the heap itself are few");
    assert!(
        after.device_syncs > before.device_syncs && after.device_written_bytes > before.device_written_bytes
    );
    assert_eq!((after.capacity_bytes, after.damaged_chunks), (32 << 20, 0));
    let told = ask(&socket, "stats\n");
    for part in ["\"subject\":\"durable heap\"".to_owned(), format!("\"commits\":{}", after.commits)] {
        assert!(told.contains(&part), "{part} is not in {told}");
    }
    assert!(ask(&socket, "check\n").contains("aquifer durable check"));
    drop(heap);
    assert!(ask(&socket, "stats\n").contains("the heap is closing"));
    drop(server);
    assert!(!socket.exists());
}
