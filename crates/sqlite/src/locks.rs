//! Locks of a database, among the connections of the one process that has its volume.
//!
//! Many connections read (shared). One of them may prepare to write (reserved), then keeps new readers away (pending), and writes when the others have
//! left (exclusive).

/// What a connection may do, in rising order. The values are SQLite's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Nothing.
    #[default]
    None = 0,
    /// Read.
    Shared = 1,
    /// Read, and write later.
    Reserved = 2,
    /// Read, while nobody else begins to.
    Pending = 3,
    /// Write.
    Exclusive = 4,
}

impl Level {
    /// The level that SQLite means.
    pub fn from_code(code: i32) -> Self {
        match code {
            i32::MIN..=0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// The locks that connections hold on one database.
#[derive(Default, Debug)]
pub struct Locks {
    /// Connections with any level but none.
    readers: u32,
    /// The level of the one that is above shared.
    writer: Level,
}

impl Locks {
    /// Raises a connection to `wanted`; says whether that was possible. If it waits only for readers to leave, it has become pending.
    #[must_use]
    pub fn raise(&mut self, level: &mut Level, wanted: Level) -> bool {
        if *level >= wanted {
            return true;
        }
        if *level == Level::None {
            if self.writer >= Level::Pending {
                return false;
            }
            self.readers += 1;
            *level = Level::Shared;
        }
        if wanted == Level::Shared {
            return true;
        }
        if *level == Level::Shared && self.writer > Level::Shared {
            return false;
        }
        *level = match wanted {
            Level::Exclusive if self.readers > 1 => Level::Pending,
            wanted => wanted,
        };
        self.writer = *level;
        *level == wanted
    }

    /// Lowers a connection to shared or none.
    pub fn lower(&mut self, level: &mut Level, wanted: Level) {
        if *level <= wanted {
            return;
        }
        if *level > Level::Shared {
            self.writer = Level::None;
        }
        if wanted == Level::None {
            self.readers -= 1;
        }
        *level = wanted;
    }

    /// Whether some connection is going to write.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.writer > Level::Shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_the_others_have_left() {
        let mut locks = Locks::default();
        let (mut a, mut b, mut c) = (Level::None, Level::None, Level::None);
        assert!(locks.raise(&mut a, Level::Shared) && locks.raise(&mut b, Level::Shared));
        assert!(!locks.is_reserved());
        assert!(locks.raise(&mut a, Level::Reserved) && locks.is_reserved());
        assert!(!locks.raise(&mut b, Level::Reserved) && b == Level::Shared);
        assert!(locks.raise(&mut c, Level::Shared), "a reserved lock lets others read");
        locks.lower(&mut c, Level::None);

        assert!(!locks.raise(&mut a, Level::Exclusive));
        assert_eq!(a, Level::Pending);
        assert!(!locks.raise(&mut c, Level::Shared) && c == Level::None, "a pending lock keeps readers away");
        assert!(!locks.raise(&mut b, Level::Exclusive) && b == Level::Shared);
        locks.lower(&mut b, Level::None);
        assert!(locks.raise(&mut a, Level::Exclusive));
        assert!(!locks.raise(&mut b, Level::Shared));

        locks.lower(&mut a, Level::Shared);
        assert!(!locks.is_reserved() && locks.raise(&mut b, Level::Reserved));
        locks.lower(&mut a, Level::None);
        locks.lower(&mut b, Level::None);
        assert!(locks.raise(&mut c, Level::Shared) && locks.raise(&mut c, Level::Exclusive));
    }

    #[test]
    fn who_repairs_a_database_goes_from_shared_to_exclusive() {
        let mut locks = Locks::default();
        let (mut a, mut b) = (Level::None, Level::None);
        assert!(locks.raise(&mut a, Level::Shared) && locks.raise(&mut b, Level::Shared));
        assert!(!locks.raise(&mut a, Level::Exclusive) && !locks.raise(&mut b, Level::Exclusive));
        locks.lower(&mut a, Level::None);
        assert!(!locks.is_reserved());
        assert!(locks.raise(&mut b, Level::Exclusive));
    }
}
