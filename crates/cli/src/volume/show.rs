//! Names, permissions and times as people read them.

use std::io::{self, IsTerminal, Write};

use aquifer_volume::{Inode, Kind, Time};

use crate::error::printable;

/// Names as they go to standard output: a terminal gets none of their control characters, programs get their bytes.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    is_terminal: bool,
}

impl Names {
    /// For standard output.
    pub fn new() -> Self {
        Names { is_terminal: io::stdout().is_terminal() }
    }

    /// Writes a name.
    ///
    /// # Errors
    /// The output's.
    pub fn write(self, name: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.is_terminal {
            out.write_all(printable(&String::from_utf8_lossy(name)).as_bytes())
        } else {
            out.write_all(name)
        }
    }
}

/// What an inode is, in one word.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Symlink => "symbolic link",
        Kind::Pipe => "pipe",
        Kind::Socket => "socket",
        Kind::BlockDevice => "block device",
        Kind::CharacterDevice => "character device",
        Kind::Xattrs => "extended attributes",
    }
}

/// Kind and permissions, as in `-rw-r--r--`.
pub fn mode_letters(inode: &Inode) -> String {
    let kind = match inode.kind {
        Kind::File => '-',
        Kind::Folder => 'd',
        Kind::Symlink => 'l',
        Kind::Pipe => 'p',
        Kind::Socket => 's',
        Kind::BlockDevice => 'b',
        Kind::CharacterDevice => 'c',
        Kind::Xattrs => '?',
    };
    let mut letters = String::from(kind);
    // The bit that changes what execution means for owner, group and others.
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = inode.mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (bits & 1 != 0, inode.mode & special != 0) {
            (true, true) => with,
            (false, true) => without,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

/// A moment in universal time, as in `2026-11-23 01:02:03`.
pub fn moment(time: Time) -> String {
    let seconds = time.0.div_euclid(1_000_000_000);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    let in_day = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", in_day / 3600, in_day / 60 % 60, in_day % 60)
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_have_letters() {
        for (kind, mode, letters) in [
            (Kind::File, 0o644, "-rw-r--r--"),
            (Kind::Folder, 0o1777, "drwxrwxrwt"),
            (Kind::Folder, 0o1776, "drwxrwxrwT"),
            (Kind::File, 0o6755, "-rwsr-sr-x"),
            (Kind::File, 0o6000, "---S--S---"),
            (Kind::Symlink, 0o777, "lrwxrwxrwx"),
            (Kind::Pipe, 0o600, "prw-------"),
            (Kind::Socket, 0o755, "srwxr-xr-x"),
            (Kind::BlockDevice, 0o660, "brw-rw----"),
            (Kind::CharacterDevice, 0o666, "crw-rw-rw-"),
        ] {
            assert_eq!(mode_letters(&Inode::new(kind, mode, 0, 0)), letters);
        }
    }

    #[test]
    fn moments_of_all_times() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_732_323_723, "2024-11-23 01:02:03"),
            (-1, "1969-12-31 23:59:59"),
            (-86_400 * 365, "1969-01-01 00:00:00"),
        ] {
            assert_eq!(moment(Time(seconds * 1_000_000_000)), text);
        }
        assert_eq!(moment(Time(i64::MAX)), "2262-04-11 23:47:16");
        assert_eq!(moment(Time(i64::MIN)), "1677-09-21 00:12:43");
    }
}
