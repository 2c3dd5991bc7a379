//! A heap that other processes can look into.
//!
//! ```sh
//! cargo run -p aquifer --example watched -- /tmp/watched.sock &
//! aquifer stats --socket /tmp/watched.sock
//! ```
//! Without an argument the socket is the one in `AQUIFER_SOCKET`, if any. The program says `ready` when its
//! heap is filled, and ends when its input does.

use std::error::Error;
use std::io::{Read, Write};

use aquifer::{Heap, Options};

/// Objects, a few times what fits in the RAM budget.
const OBJECTS: usize = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    // Connections to donors need RAM too.
    let ram_bytes = if std::env::var_os("AQUIFER_DONORS").is_some() { 16 << 20 } else { 8 << 20 };
    let mut options = Options::from_env()?.ram_bytes(ram_bytes).flash_bytes(64 << 20);
    if let Some(path) = std::env::args_os().nth(1) {
        options = options.socket(path);
    }
    let heap = Heap::open(options)?;
    let array = heap.array(OBJECTS, 128)?;
    for n in 0..OBJECTS {
        let word = array.element(n).cast::<u64>();
        // SAFETY: the element has 128 bytes, is aligned to a page, and belongs to this program.
        unsafe { *word = n as u64 };
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    heap.free(array.base())?;
    Ok(())
}
