//! What becomes of a heap whose file is damaged: an error, or every object as it was; never other bytes.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aquifer_base::HomeAddress;
use aquifer_durable::inspect::HeapFile;
use aquifer_durable::{Backing, DurableHeap, Error, Options};

use crate::damage::Damaged;
use crate::durable::{How, clean, image, open};
use crate::excuse::{Excuse, hits_value_under_way};
use crate::machine::{Machine, mix};
use crate::model::{History, Objects};

/// Of larger objects, which have zeros, only the beginning is looked at.
const LOOKED_AT_BYTES: u64 = 256 << 10;
/// Bytes of home space that are asked for at a time where a whole object cannot be loaded.
const PIECE_BYTES: u64 = 4;

/// How often damage ended how.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// The heap was opened, and has all objects as they were.
    pub right: u64,
    /// It was not opened, or an object was refused.
    pub refused: u64,
    /// It has all but bytes for which there is an [`Excuse`].
    pub excused: u64,
    /// What is left of a refused one was copied.
    pub salvaged: u64,
    /// Even that was refused.
    pub lost: u64,
}

impl Counts {
    /// Fails if damage never ended in one of these ways.
    pub fn expect_all(&self) {
        assert!(self.right > 0 && self.refused > 0 && self.salvaged > 0, "{self:?}");
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.right += other.right;
        self.refused += other.refused;
        self.excused += other.excused;
        self.salvaged += other.salvaged;
        self.lost += other.lost;
    }
}

/// A heap after a cut, before damage.
pub struct Before<'a> {
    /// As the cut left it.
    cut: &'a Machine,
    /// As recovery left it.
    recovered: Arc<Machine>,
    objects: Objects,
}

/// Bytes of home space that are not as they were.
pub struct Wrong {
    pub homes: Range<u64>,
    /// What is there, if anything is allocated.
    found: Option<Vec<u8>>,
}

impl Wrong {
    fn new(home: HomeAddress, len: u64, found: Option<Vec<u8>>) -> Self {
        Self { homes: home.0..home.0 + len, found }
    }

    /// Whether what is there was there at some time.
    fn is_of(&self, history: &History) -> bool {
        let found = self.found.as_deref();
        found.is_none_or(|found| history.check(HomeAddress(self.homes.start), found).is_ok())
    }
}

/// Where files are written that are looked at.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let made = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        Self(made.expect("a directory"))
    }

    /// A file with what a machine's memory has.
    fn file(&self, name: &str, machine: &Machine) -> PathBuf {
        let path = self.0.path().join(name);
        machine.with_memory(0, |memory| std::fs::write(&path, memory.file())).expect("room");
        path
    }

    /// Keeps what is there for somebody to look at, if that was asked for.
    fn keep(self) {
        if std::env::var_os("AQUIFER_CRASHES_KEEP").is_some() {
            println!("kept: {}", self.0.keep().display());
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Foreign { .. })
}

/// The objects of a heap in their order, each with its size.
///
/// # Errors
/// The heap's.
fn each_object(
    heap: &DurableHeap,
    mut visit: impl FnMut(HomeAddress, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut after = HomeAddress(0);
    while let Some((home, size)) = heap.transaction(|tx| {
        let Some(home) = tx.next_object(after)? else { return Ok(None) };
        tx.size(home).map(|size| Some((home, size)))
    })? {
        visit(home, size)?;
        after = home;
    }
    Ok(())
}

/// All objects of a heap, of large ones the beginning.
///
/// # Errors
/// The heap's.
fn objects(heap: &DurableHeap) -> Result<Objects, Error> {
    let mut objects = BTreeMap::new();
    each_object(heap, |home, size| {
        let mut bytes = vec![0; size.min(LOOKED_AT_BYTES) as usize];
        heap.transaction(|tx| tx.load(home, &mut bytes))?;
        objects.insert(home, bytes);
        Ok(())
    })?;
    Ok(objects)
}

/// What of `expected` is not there or otherwise, and what else is there.
///
/// # Errors
/// An object was refused.
fn compare(heap: &DurableHeap, expected: &Objects) -> Result<Vec<Wrong>, Error> {
    let mut wrong = Vec::new();
    for (&home, bytes) in expected {
        let mut out = vec![0; bytes.len()];
        match heap.transaction(|tx| tx.load(home, &mut out)) {
            Ok(()) if out == *bytes => {}
            Ok(()) => wrong.extend((0..bytes.len()).filter(|&at| out[at] != bytes[at]).map(|at| {
                let found = Some(vec![out[at]]);
                Wrong::new(home.plus_bytes(at as u64), 1, found)
            })),
            Err(error) if is_refusal(&error) => return Err(error),
            Err(_) => add_pieces(heap, home, bytes, &mut wrong)?,
        }
    }
    each_object(heap, |home, size| {
        if !expected.contains_key(&home) {
            let mut found = vec![0; size.min(LOOKED_AT_BYTES) as usize];
            let is_whole = heap.transaction(|tx| tx.load(home, &mut found)).is_ok();
            wrong.push(Wrong::new(home, size, is_whole.then_some(found)));
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// Adds what is otherwise of an object that is not there as a whole.
fn add_pieces(
    heap: &DurableHeap,
    home: HomeAddress,
    bytes: &[u8],
    wrong: &mut Vec<Wrong>,
) -> Result<(), Error> {
    for (at, piece) in (0..).step_by(PIECE_BYTES as usize).zip(bytes.chunks(PIECE_BYTES as usize)) {
        let mut out = [0; PIECE_BYTES as usize];
        let out = &mut out[..piece.len()];
        let home = home.plus_bytes(at);
        match heap.transaction(|tx| tx.load(home, out)) {
            Ok(()) if out == piece => {}
            Ok(()) => wrong.push(Wrong::new(home, piece.len() as u64, Some(out.to_vec()))),
            Err(error) if is_refusal(&error) => return Err(error),
            Err(_) => wrong.push(Wrong::new(home, piece.len() as u64, None)),
        }
    }
    Ok(())
}

impl<'a> Before<'a> {
    /// Takes what the cut has left; `recovered` is opened by `heap`.
    pub fn new(cut: &'a Machine, recovered: &Machine, heap: &DurableHeap) -> Self {
        Self { cut, recovered: image(recovered, false), objects: objects(heap).expect("nothing is damaged") }
    }

    /// Damages it, and looks what becomes of it.
    ///
    /// # Panics
    /// Other bytes than those that were committed are shown.
    pub fn judge(&self, seed: u64, history: &History, context: impl Fn(String) -> String) -> Counts {
        let mut counts = Counts::default();
        let Some(damaged) = Damaged::new(self.cut, seed) else { return counts };
        let fail = |why: String| -> ! {
            let Damaged { damage, ranges, .. } = &damaged;
            let damage = format!("{damage:?} {seed}, {} ranges from {:?} on", ranges.len(), ranges[0]);
            panic!("{}", context(format!("{damage}: {why}")))
        };
        match self.look(&damaged, seed) {
            Err(error) if is_refusal(&error) => {
                counts.refused = 1;
                match self.salvage(&damaged, history) {
                    Ok(true) => counts.salvaged = 1,
                    Ok(false) => counts.lost = 1,
                    Err(why) => {
                        let folder = Folder::new();
                        self.files(&damaged, &folder);
                        folder.keep();
                        fail(format!("salvaged, {why}"))
                    }
                }
            }
            Err(error) => fail(error.to_string()),
            Ok(wrong) if wrong.is_empty() => counts.right = 1,
            Ok(_)
                if self.cut.with_memory(0, |memory| hits_value_under_way(memory.file(), &damaged.ranges)) =>
            {
                counts.excused = 1;
            }
            Ok(wrong) => {
                let folder = Folder::new();
                let [cut, recovered, hit] = self.files(&damaged, &folder);
                let excuse = Excuse::of(&cut, &recovered, &hit, &damaged.ranges);
                let is_excused = |wrong: &&Wrong| excuse.is_of_all(&wrong.homes) && wrong.is_of(history);
                match wrong.iter().find(|wrong| !is_excused(wrong)) {
                    None => counts.excused = 1,
                    Some(Wrong { homes, found }) => {
                        folder.keep();
                        fail(format!("{homes:?} is {found:?}, and no error"))
                    }
                }
            }
        }
        counts
    }

    /// Files with what the cut and recovery have left, and with the damage.
    fn files(&self, damaged: &Damaged, folder: &Folder) -> [PathBuf; 3] {
        [("cut", self.cut), ("recovered", &*self.recovered), ("damaged", &*damaged.machine)]
            .map(|(name, machine)| folder.file(name, machine))
    }

    /// Opens the damaged heap, looks at all objects, goes on with it and opens it again.
    fn look(&self, damaged: &Damaged, seed: u64) -> Result<Vec<Wrong>, Error> {
        let how = How { checkpoints: mix(seed ^ 9).is_multiple_of(2), ..How::default() };
        let machine = image(&damaged.machine, false);
        machine.start(None);
        let heap = open(&machine, how)?;
        let mut wrong = compare(&heap, &self.objects)?;
        if mix(seed ^ 10).is_multiple_of(2) {
            return Ok(wrong);
        }
        clean(&heap)?;
        drop(heap);
        machine.start(None);
        wrong.extend(compare(&open(&machine, how)?, &self.objects)?);
        Ok(wrong)
    }

    /// Copies what is left of a damaged heap; false if that is refused.
    fn salvage(&self, damaged: &Damaged, history: &History) -> Result<bool, String> {
        let folder = Folder::new();
        let (path, target) = (folder.file("damaged", &damaged.machine), folder.0.path().join("saved"));
        match HeapFile::open(&path).and_then(|file| file.salvage(&target, |_| {})) {
            Ok(_) => {}
            Err(error) if is_refusal(&error) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        let options = Options { backing: Backing::Memory, cleans_ahead: false, ..Options::default() };
        let heap = DurableHeap::open(&target, &options).map_err(|error| error.to_string())?;
        let mut never = Ok(());
        let visited = each_object(&heap, |home, size| {
            let mut bytes = vec![0; size.min(LOOKED_AT_BYTES) as usize];
            let mut check = |home, bytes: &[u8]| {
                if never.is_ok() {
                    never = history.check(home, bytes);
                }
            };
            match heap.transaction(|tx| tx.load(home, &mut bytes)) {
                Ok(()) => check(home, &bytes),
                // The allocation was in what is lost, and what was stored later was not.
                Err(Error::NotAllocated(_)) => {
                    for piece in (0..bytes.len() as u64).step_by(PIECE_BYTES as usize) {
                        let (home, mut out) = (home.plus_bytes(piece), [0; PIECE_BYTES as usize]);
                        if heap.transaction(|tx| tx.load(home, &mut out)).is_ok() {
                            check(home, &out);
                        }
                    }
                }
                Err(error) => return Err(error),
            }
            Ok(())
        });
        visited.map_err(|error| error.to_string())?;
        never?;
        Ok(true)
    }
}
