//! Between a request and its answer nothing is allocated: who serves swap has no memory to find.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use aquifer_block::nbd::{Listener, Server, Settings};
use aquifer_device::MemoryDevice;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;
const REPLY_BYTES: usize = 16;

fn head(flags: u16, command: u16, offset: u64, len: u32) -> [u8; 28] {
    let mut head = [0; 28];
    head[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
    head[4..6].copy_from_slice(&flags.to_be_bytes());
    head[6..8].copy_from_slice(&command.to_be_bytes());
    head[16..24].copy_from_slice(&offset.to_be_bytes());
    head[24..].copy_from_slice(&len.to_be_bytes());
    head
}

/// Does a request whose bytes are `data`, in memory that is there.
fn ask(stream: &mut TcpStream, head: &[u8; 28], data: &[u8], answer: &mut [u8]) {
    stream.write_all(head).unwrap();
    stream.write_all(data).unwrap();
    stream.read_exact(answer).unwrap();
    assert!(answer[4..8] == [0; 4]);
}

#[test]
fn a_request_allocates_nothing() {
    let device = Arc::new(MemoryDevice::new(16 << 20, 512));
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let server = Server::new(device, "", listener, Settings::default(), Arc::new(|_| ()));
    let stopper = server.stopper();
    let thread = std::thread::spawn(|| server.serve());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    let data = vec![5; 3 << 20];
    let mut answer = vec![0; REPLY_BYTES + (3 << 20)];
    let mut round = |rounds| {
        for at in 0..rounds {
            let offset = at % 1000 * 4096;
            let (answer, page) = (&mut answer[..], &data[..4096]);
            ask(&mut stream, &head(0, WRITE, offset, 4096), page, &mut answer[..REPLY_BYTES]);
            ask(&mut stream, &head(FUA, WRITE, offset, 4096), page, &mut answer[..REPLY_BYTES]);
            ask(&mut stream, &head(0, 0, offset, 4096), &[], &mut answer[..REPLY_BYTES + 4096]);
            ask(&mut stream, &head(0, FLUSH, 0, 0), &[], &mut answer[..REPLY_BYTES]);
        }
        // What goes in pieces, refusals included.
        ask(&mut stream, &head(0, WRITE, 0, 3 << 20), &data, &mut answer[..REPLY_BYTES]);
        ask(&mut stream, &head(0, 0, 0, 3 << 20), &[], &mut answer);
        ask(&mut stream, &head(0, WRITE_ZEROES, 0, 3 << 20), &[], &mut answer[..REPLY_BYTES]);
        ask(&mut stream, &head(0, TRIM, 0, 16 << 20), &[], &mut answer[..REPLY_BYTES]);
    };
    // Threads that start allocate their own things.
    round(200);
    let before = ALLOCATIONS.load(SeqCst);
    round(2000);
    assert_eq!(ALLOCATIONS.load(SeqCst) - before, 0);
    drop(stream);
    stopper.stop();
    thread.join().unwrap().unwrap();
}
