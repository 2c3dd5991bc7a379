//! Objects whose every read is proven.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::contents::{self, keys};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, Versions};
use crate::objects::Objects;

/// An array of objects, all filled before the first is read, with the writes that there were.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a> {
    objects: Objects<'a>,
    ledger: &'a Ledger,
}

/// A word that nobody wrote there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wrong {
    object: u64,
    place: u64,
    wanted: u64,
    found: u64,
    /// The version of a word that was right once.
    outdated: Option<u64>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, place, wanted, found, outdated } = self;
        write!(f, "object {object} word {place}: wanted {wanted:#018x}, found {found:#018x}")?;
        match outdated {
            Some(version) => write!(f, ", which write number {version} left there"),
            None => Ok(()),
        }
    }
}

impl<'a> Verified<'a> {
    /// `objects`, written as `ledger` says.
    pub fn new(objects: Objects<'a>, ledger: &'a Ledger) -> Self {
        Self { objects, ledger }
    }

    /// Number of objects.
    pub fn count(&self) -> u64 {
        self.objects.count()
    }

    /// A thread's way to versions.
    pub fn versions(&self) -> Versions<'a> {
        self.ledger.versions()
    }

    /// Writes every byte of object `index` for the first time.
    #[inline]
    pub fn fill(&self, index: u64) {
        self.store(index, self.objects.number(index));
    }

    /// Rewrites every byte of object `index`.
    #[inline]
    pub fn write(&self, index: u64, versions: &mut Versions<'_>) {
        let version = versions.next();
        // Only its writer of the moment sees a watched object that is half written.
        let mut watch = self.ledger.watch(self.objects.number(index));
        self.store(index, version);
        if let Some(last) = &mut watch {
            **last = version;
        }
    }

    fn store(&self, index: u64, version: u64) {
        let (number, payload) = (self.objects.number(index), self.ledger.payload());
        for ((word, key), place) in self.objects.words(index).zip(keys(number)).zip(0..) {
            word.store(contents::word_of(payload, number, place, key, version), Ordering::Relaxed);
        }
    }

    /// Reads every byte of object `index` and proves it.
    ///
    /// # Errors
    /// [`Error::WrongData`] with object, word, what was wanted there and what was found.
    #[inline]
    pub fn read(&self, index: u64) -> Result<()> {
        let number = self.objects.number(index);
        if let Some(last) = self.ledger.watch(number) {
            return self.read_exactly(index, *last);
        }
        let (payload, bound) = (self.ledger.payload(), self.ledger.bound());
        for ((word, key), place) in self.objects.words(index).zip(keys(number)).zip(0..) {
            let found = word.load(Ordering::Relaxed);
            let is_right = if contents::has_version(payload, place) {
                self.ledger.could_be(contents::version(key, found), number, bound)
            } else {
                found == payload.word(number, place)
            };
            if !is_right {
                self.look_again(index, place, key, found)?;
            }
        }
        Ok(())
    }

    /// Reads and proves all watched objects among these.
    ///
    /// # Errors
    /// As [`Verified::read`].
    pub fn read_watched(&self) -> Result<()> {
        let first = self.objects.number(0);
        let indices = self.ledger.watched().filter_map(|number| number.checked_sub(first));
        indices.filter(|&index| index < self.count()).try_for_each(|index| self.read(index))
    }

    /// Turns the bits of one byte of object `index` around, as nothing but a failure of the peer would.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such object or byte.
    pub fn flip(&self, index: u64, byte: u64) -> Result<()> {
        let (count, bytes) = (self.count(), self.objects.object_bytes());
        let word = (index < count).then(|| self.objects.words(index).nth(byte as usize / 8)).flatten();
        let word = word.ok_or_else(|| {
            Error::Input(format!(
                "there is no byte {byte} of object {index} in {count} objects of {bytes} bytes"
            ))
        })?;
        word.fetch_xor(u64::from_ne_bytes(flipped(byte)), Ordering::Relaxed);
        Ok(())
    }

    /// All words are of write `version`, which was the last. The caller holds the object.
    fn read_exactly(&self, index: u64, version: u64) -> Result<()> {
        let number = self.objects.number(index);
        let payload = self.ledger.payload();
        for ((word, key), place) in self.objects.words(index).zip(keys(number)).zip(0..) {
            let found = word.load(Ordering::Relaxed);
            let wanted = contents::word_of(payload, number, place, key, version);
            if found != wanted {
                let left = contents::version(key, found);
                let could_be = contents::has_version(payload, place)
                    && self.ledger.could_be(left, number, self.ledger.new_bound());
                let outdated = could_be.then_some(left);
                return Err(self.wrong(Wrong { object: number, place, wanted, found, outdated }));
            }
        }
        Ok(())
    }

    /// Whether `found` is of a version that was handed out since the bound was looked at.
    #[cold]
    fn look_again(&self, index: u64, place: u64, key: u64, found: u64) -> Result<()> {
        let (number, payload) = (self.objects.number(index), self.ledger.payload());
        if !contents::has_version(payload, place) {
            let wanted = payload.word(number, place);
            return Err(self.wrong(Wrong { object: number, place, wanted, found, outdated: None }));
        }
        let could_be = |version| self.ledger.could_be(version, number, self.ledger.new_bound());
        if could_be(contents::version(key, found)) {
            return Ok(());
        }
        // Which write it should be of, another word of the object tells best; if none is right, it was filled at least.
        let words = self.objects.words(index).map(|word| word.load(Ordering::Relaxed));
        let mut versions = words
            .zip(keys(number))
            .zip(0..)
            .filter(|&(_, place)| contents::has_version(payload, place))
            .map(|((word, key), _)| contents::version(key, word));
        let wanted = contents::word(key, versions.find(|&version| could_be(version)).unwrap_or(number));
        Err(self.wrong(Wrong { object: number, place, wanted, found, outdated: None }))
    }

    #[cold]
    fn wrong(&self, wrong: Wrong) -> Error {
        Error::WrongData { peer: self.ledger.peer().to_owned(), what: wrong.to_string() }
    }
}

/// A word in which all bits of this byte of an object are set.
fn flipped(byte: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[byte as usize % 8] = 0xff;
    bytes
}

#[cfg(test)]
mod tests {
    use std::thread;

    use clap::ValueEnum;

    use super::*;
    use crate::objects::in_memory;
    use crate::payload::Payload;

    const COUNT: u64 = 1000;

    /// Objects of every payload.
    fn filled(test: impl Fn(Verified<'_>, Objects<'_>, &Ledger)) {
        for &payload in Payload::value_variants() {
            in_memory(64, COUNT, |objects| {
                let ledger = Ledger::new("test", COUNT).holding(payload);
                let verified = Verified::new(objects, &ledger);
                (0..COUNT).for_each(|index| verified.fill(index));
                test(verified, objects, &ledger);
            });
        }
    }

    fn what(verified: Verified<'_>, index: u64) -> String {
        verified.read(index).expect_err("wrong data").to_string()
    }

    #[test]
    fn what_was_written_is_right() {
        filled(|verified, _, _| {
            let mut versions = verified.versions();
            for _ in 0..3 {
                (0..COUNT).for_each(|index| verified.read(index).expect("written by us"));
                (0..COUNT).step_by(3).for_each(|index| verified.write(index, &mut versions));
            }
            verified.read_watched().expect("written by us");
        });
    }

    #[test]
    fn a_flipped_byte_is_named() {
        filled(|verified, objects, _| {
            for index in 0..COUNT {
                let byte = index % 64;
                let word = objects.words(index).nth(byte as usize / 8).expect("eight words");
                let right = word.load(Ordering::Relaxed);
                verified.flip(index, byte).expect("there is such a byte");
                let wrong = word.load(Ordering::Relaxed);
                assert_eq!((right ^ wrong).count_ones(), 8);
                let place = byte / 8;
                let named = format!(
                    "WRONG DATA from test: object {index} word {place}: wanted {right:#018x}, found {wrong:#018x}"
                );
                assert_eq!(what(verified, index), named);
            }
            assert!(verified.flip(COUNT, 0).is_err() && verified.flip(0, 64).is_err());
        });
    }

    #[test]
    fn bytes_of_another_object_are_wrong() {
        filled(|verified, objects, _| {
            let copy = |from: u64, to: u64| {
                let words = objects.words(from).map(|word| word.load(Ordering::Relaxed));
                objects.words(to).zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            };
            copy(3, 4);
            assert!(what(verified, 4).contains("object 4 word 0: "));
            objects.words(5).for_each(|word| word.store(0, Ordering::Relaxed));
            assert!(what(verified, 5).ends_with("found 0x0000000000000000"));
            // A part of the array knows where it begins.
            assert!(Verified::new(objects.behind(10), verified.ledger).read(7).is_ok());
        });
    }

    #[test]
    fn a_lost_write_of_a_watched_object_is_wrong() {
        filled(|verified, objects, ledger| {
            let index = ledger.watched().next().expect("there are some");
            let before: Vec<u64> = objects.words(index).map(|word| word.load(Ordering::Relaxed)).collect();
            let mut versions = verified.versions();
            verified.write(index, &mut versions);
            verified.read(index).expect("written by us");
            // The last half of it is as it was before; all of it where only its first word has a version.
            let kept = if ledger.payload() == Payload::Random { 4 } else { 0 };
            objects
                .words(index)
                .zip(&before)
                .skip(kept)
                .for_each(|(word, &old)| word.store(old, Ordering::Relaxed));
            let what = what(verified, index);
            assert!(what.contains(&format!("object {index} word {kept}: ")), "{what}");
            assert!(what.ends_with(&format!("which write number {index} left there")), "{what}");
            assert!(verified.read_watched().is_err());
        });
    }

    #[test]
    fn threads_that_race_find_nothing_wrong() {
        filled(|verified, _, _| {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mut versions = verified.versions();
                        // More than are taken together, on few objects.
                        (0..100_000).for_each(|nth| verified.write(nth % 20, &mut versions));
                    });
                    scope.spawn(|| {
                        (0..100_000).try_for_each(|nth| verified.read(nth % 20)).expect("only races")
                    });
                }
            });
            verified.read_watched().expect("the last writes");
        });
    }
}
