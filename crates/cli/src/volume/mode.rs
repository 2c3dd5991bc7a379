//! Permissions as `chmod` takes them.

use std::str::FromStr;

/// A change of permissions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModeChange {
    /// These and no others.
    To(u16),
    /// One after the other.
    By(Vec<Clause>),
}

/// One change, as in `go-w`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clause {
    /// Bits of those who are meant, as in 0o070 for the group; 0 for all but what the umask keeps.
    who: u16,
    operation: Operation,
    permissions: Permissions,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Add,
    Remove,
    Set,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Permissions {
    /// Read, write, execute.
    bits: u16,
    /// Execute where it is a folder, or somebody may execute it.
    execute_where_useful: bool,
    /// Rights of owner or group are lent.
    lends: bool,
    /// Names are kept.
    sticky: bool,
    /// Permissions are copied from those of owner, group or others.
    copied_from: Option<u16>,
}

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("'{text}' is no mode; write it as in 640, u=rw,go-w or a+x");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let mode = u16::from_str_radix(text, 8).map_err(|_| malformed())?;
            return if mode <= 0o7777 { Ok(Self::To(mode)) } else { Err(malformed()) };
        }
        let mut clauses = Vec::new();
        for part in text.split(',') {
            let start = part.find(['+', '-', '=']).ok_or_else(malformed)?;
            let (who, mut rest) = part.split_at(start);
            let who = who.chars().try_fold(0, |who, c| Some(who | class(c)?)).ok_or_else(malformed)?;
            while let Some(operation) = rest.chars().next() {
                let operation = match operation {
                    '+' => Operation::Add,
                    '-' => Operation::Remove,
                    _ => Operation::Set,
                };
                let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |at| at + 1);
                let permissions = permissions(&rest[1..end]).ok_or_else(malformed)?;
                clauses.push(Clause { who, operation, permissions });
                rest = &rest[end..];
            }
        }
        Ok(Self::By(clauses))
    }
}

fn class(letter: char) -> Option<u16> {
    Some(match letter {
        'u' => 0o700,
        'g' => 0o070,
        'o' => 0o007,
        'a' => 0o777,
        _ => return None,
    })
}

fn permissions(letters: &str) -> Option<Permissions> {
    let mut permissions = Permissions::default();
    if let Some(class) = ["u", "g", "o"].contains(&letters).then(|| class(letters.chars().next()?)).flatten()
    {
        permissions.copied_from = Some(class);
        return Some(permissions);
    }
    for letter in letters.chars() {
        match letter {
            'r' => permissions.bits |= 0o444,
            'w' => permissions.bits |= 0o222,
            'x' => permissions.bits |= 0o111,
            'X' => permissions.execute_where_useful = true,
            's' => permissions.lends = true,
            't' => permissions.sticky = true,
            _ => return None,
        }
    }
    Some(permissions)
}

impl ModeChange {
    /// The permissions that come of `mode`.
    #[must_use]
    pub fn apply(&self, mode: u16, is_folder: bool, umask: u16) -> u16 {
        match self {
            Self::To(mode) => *mode,
            Self::By(clauses) => {
                clauses.iter().fold(mode, |mode, clause| clause.apply(mode, is_folder, umask))
            }
        }
    }
}

impl Clause {
    fn apply(self, mode: u16, is_folder: bool, umask: u16) -> u16 {
        let Permissions { bits, execute_where_useful, lends, sticky, copied_from } = self.permissions;
        let mut wanted = bits;
        if execute_where_useful && (is_folder || mode & 0o111 != 0) {
            wanted |= 0o111;
        }
        if let Some(class) = copied_from {
            // The three bits of the class, for each of the others as well.
            wanted |= (mode & class) / (class & 0o111) * 0o111;
        }
        let everybody = self.who == 0;
        let who = if everybody { 0o777 & !umask } else { self.who };
        wanted &= who;
        let reached = if everybody { 0o777 } else { self.who };
        let mut special = 0;
        let mut reached_special = 0;
        for (class, bit) in [(0o700, 0o4000), (0o070, 0o2000)] {
            if reached & class != 0 {
                reached_special |= bit;
                special |= if lends { bit } else { 0 };
            }
        }
        if everybody || reached & 0o007 != 0 {
            reached_special |= 0o1000;
            special |= if sticky { 0o1000 } else { 0 };
        }
        wanted |= special;
        match self.operation {
            Operation::Add => mode | wanted,
            Operation::Remove => mode & !wanted,
            Operation::Set => mode & !(reached | reached_special) | wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_as_chmod_does_them() {
        for (text, mode, is_folder, expected) in [
            ("640", 0o777, false, 0o640),
            ("0", 0o777, false, 0),
            ("7777", 0, false, 0o7777),
            ("u=rw,go-w", 0o777, false, 0o655),
            ("a+x", 0o644, false, 0o755),
            ("+x", 0o644, false, 0o755),
            ("+w", 0o444, false, 0o644),
            ("-w", 0o666, false, 0o466),
            ("=r", 0o777, false, 0o444),
            ("a=", 0o777, false, 0),
            ("go=u", 0o740, false, 0o777),
            ("o=g", 0o750, false, 0o755),
            ("u-g", 0o750, false, 0o250),
            ("a+X", 0o644, false, 0o644),
            ("a+X", 0o744, false, 0o755),
            ("a+X", 0o644, true, 0o755),
            ("u+s", 0o755, false, 0o4755),
            ("g+s", 0o755, false, 0o2755),
            ("+s", 0o755, false, 0o6755),
            ("+t", 0o777, true, 0o1777),
            ("u=rwx", 0o4755, false, 0o755),
            ("ug-s", 0o6755, false, 0o755),
            ("u=rw-w+x", 0o000, false, 0o500),
        ] {
            let change: ModeChange = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(change.apply(mode, is_folder, 0o022), expected, "{text} on {mode:o}");
        }
    }

    #[test]
    fn what_makes_no_sense() {
        for text in ["", "8", "77777", "10000", "u", "x+r", "u+y", "u+rw,", "ug", "u+ug", "rw"] {
            assert!(text.parse::<ModeChange>().is_err(), "{text}");
        }
    }
}
