//! How much is in the file of a durable heap.

use aquifer_base::units::format_size;
use aquifer_durable::Error;
use aquifer_durable::inspect::{Contents, Found, HeapFile};
use aquifer_durable::superblock::VERSION;
use serde::Serialize;

use crate::amounts::{grouped, percent};
use crate::error::printable;

/// What recovery and a count of the chunks have found.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Summary {
    /// Version of the file.
    pub version: u32,
    /// Length of the file.
    pub file_bytes: u64,
    /// What it takes of its file system.
    pub allocated_bytes: u64,
    /// Size of a chunk.
    pub chunk_bytes: u64,
    /// Chunks with transactions.
    pub chunks_in_use: u64,
    /// Chunks with parts of a checkpoint.
    pub chunks_of_checkpoint: u64,
    /// The others.
    pub chunks_free: u64,
    /// Transactions and parts of them, those that are not needed any more included.
    pub blocks: u64,
    /// Of them, those that are damaged and of which nothing is needed.
    pub damaged_blocks: u64,
    /// Objects that are allocated.
    pub objects: u64,
    /// Bytes of objects; zeros that were never written take none.
    pub live_bytes: u64,
    /// `live_bytes` of the bytes of the chunks in use; 0 if there are none.
    pub utilisation: f64,
    /// RAM that the address map takes when the heap is open.
    pub map_bytes: u64,
    /// The version of the newest transaction; 0 if there was none.
    pub newest_version: u64,
}

/// What stands before the numbers in JSON.
#[derive(Serialize)]
struct Named<'a> {
    file: &'a str,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl Summary {
    /// Looks at all of a file that nobody changes meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn of(file: &HeapFile) -> Result<Self, Error> {
        let Contents { objects, newest_version, damaged_blocks, usage } = file.contents()?;
        let chunk_bytes = u64::from(file.superblock().chunk_bytes);
        let (mut chunks_in_use, mut chunks_of_checkpoint, mut blocks) = (0, 0, 0);
        for number in 0..file.chunks() {
            let chunk = file.chunk(number)?;
            chunks_in_use += u64::from(matches!(chunk.header(), Ok(Some(_))));
            chunks_of_checkpoint += u64::from(chunk.part().is_some());
            blocks += chunk.blocks().filter(|(_, found)| matches!(found, Found::Block(_))).count() as u64;
        }
        let used_bytes = chunks_in_use * chunk_bytes;
        Ok(Self {
            version: VERSION,
            file_bytes: file.len_bytes(),
            allocated_bytes: file.allocated_bytes(),
            chunk_bytes,
            chunks_in_use,
            chunks_of_checkpoint,
            chunks_free: u64::from(file.chunks()) - chunks_in_use - chunks_of_checkpoint,
            blocks,
            damaged_blocks,
            objects,
            live_bytes: usage.live_bytes,
            utilisation: if used_bytes == 0 { 0.0 } else { usage.live_bytes as f64 / used_bytes as f64 },
            map_bytes: usage.map_bytes,
            newest_version,
        })
    }

    /// In half a sentence, what a check has verified.
    pub fn verified(&self) -> String {
        let number = |number: u64, what: &str| {
            format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
        };
        let damaged = match self.damaged_blocks {
            0 => String::new(),
            blocks => format!("; {} damaged, of which nothing is needed any more", number(blocks, "block")),
        };
        format!(
            "{} in {} in use, {}, newest version {}{damaged}",
            number(self.blocks, "block"),
            number(self.chunks_in_use, "chunk"),
            number(self.objects, "object"),
            self.newest_version
        )
    }

    /// One line of JSON.
    pub fn json(&self, file: &str) -> String {
        let line = serde_json::to_string(&Named { file, summary: self });
        line.expect("numbers and a text have a form in JSON") + "\n"
    }

    /// For people.
    pub fn table(&self, file: &str) -> String {
        let used =
            format!("{}   {} of the chunks in use", format_size(self.live_bytes), percent(self.utilisation));
        let head = format!("{}, durable heap of version {}\n", printable(file), self.version);
        let file = [
            ("length", format_size(self.file_bytes)),
            ("on its file system", format_size(self.allocated_bytes)),
            ("chunk", format_size(self.chunk_bytes)),
            ("chunks in use", grouped(self.chunks_in_use)),
            ("chunks of a checkpoint", grouped(self.chunks_of_checkpoint)),
            ("chunks free", grouped(self.chunks_free)),
        ];
        let objects = [("objects", grouped(self.objects)), ("live bytes", used)];
        let transactions =
            [("blocks", grouped(self.blocks)), ("newest version", grouped(self.newest_version))];
        let ram = [("address map", format_size(self.map_bytes))];
        head + &group("File", &file)
            + &group("Objects", &objects)
            + &group("Transactions", &transactions)
            + &group("RAM when it is open", &ram)
    }
}

fn group(title: &str, rows: &[(&str, String)]) -> String {
    let lines = rows.iter().map(|(label, value)| {
        // What follows the amount stands beside the column.
        let (amount, beside) = value.split_at(value.find("   ").unwrap_or(value.len()));
        format!("  {label:<28}{amount:>16}{beside}\n")
    });
    format!("\n{title}\n{}", lines.collect::<String>())
}
