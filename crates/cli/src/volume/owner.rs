//! Owner and group as `chown` takes them.

use std::str::FromStr;

/// The new user and group of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text {
            "" => Ok(None),
            _ => text.parse().map(Some).map_err(|_| {
                format!("'{text}' is not a number; `id -u NAME` and `id -g NAME` tell the numbers of names")
            }),
        };
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let owner = Owner { uid: number(user)?, gid: number(group)? };
        match owner {
            Owner { uid: None, gid: None } => Err("write USER, USER:GROUP or :GROUP".into()),
            // The system takes this number for none.
            Owner { uid: Some(u32::MAX), .. } | Owner { gid: Some(u32::MAX), .. } => {
                Err("4294967295 is no user or group".into())
            }
            _ => Ok(owner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups() {
        for (text, uid, gid) in
            [("1", Some(1), None), ("1:2", Some(1), Some(2)), (":2", None, Some(2)), ("1:", Some(1), None)]
        {
            assert_eq!(text.parse(), Ok(Owner { uid, gid }), "{text}");
        }
        for text in ["", ":", "root", "1:x", "-1", "4294967295", "4294967296", "1:2:3"] {
            assert!(text.parse::<Owner>().is_err(), "{text}");
        }
    }
}
