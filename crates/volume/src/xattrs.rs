//! Extended attributes: names with values that programs give to a file.
//!
//! The attributes of a file stand in the pages of an inode of kind [`Kind::Xattrs`], whose number the file's inode has. One change of the volume writes
//! both, so a crash leaves all attributes of a file as they were before a call or after it. That inode is freed with the last attribute, or with the file.
//!
//! ```text
//! name length u8 | 3 zeros | value length u32 | name | value, one attribute after the other up to the inode's size
//! ```

use crate::core::Change;
use crate::error::{Result, VolumeError, if_readable};
use crate::inode::{Inode, Kind, Time};
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::PAGE_BYTES;

/// Longest name of an attribute.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an attribute.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Most bytes that the names of a file's attributes have, a NUL behind each included: a call of the system lists no more.
pub const XATTR_LIST_BYTES_MAX: usize = 64 << 10;
/// Most bytes that the attributes of a file take.
pub const XATTRS_BYTES_MAX: usize = 128 << 10;

/// What every name begins with. Other kinds of names mean something to the system, which the volume does not know.
const PREFIX: &[u8] = b"user.";
const HEADER_BYTES: usize = 8;

/// Whether an attribute may be there before it is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    /// It is made, or gets another value.
    Any,
    /// It is made.
    Create,
    /// It gets another value.
    Replace,
}

/// The attributes of a file, in the order in which they were made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Xattrs(Vec<Xattr>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Xattr {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Xattrs {
    /// From the bytes on flash; `None` if they make no sense.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut found = Xattrs::default();
        while let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) {
            let value_len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
            let (name, rest) = rest.split_at_checked(header[0].into())?;
            let (value, rest) = rest.split_at_checked(value_len)?;
            if name.is_empty() || header[1..4] != [0; 3] || found.get(name).is_some() {
                return None;
            }
            found.0.push(Xattr { name: name.to_vec(), value: value.to_vec() });
            bytes = rest;
        }
        bytes.is_empty().then_some(found)
    }

    /// As they stand on flash.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Xattr { name, value } in &self.0 {
            bytes.extend_from_slice(&[name.len() as u8, 0, 0, 0]);
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|known| known.name == name).map(|known| &known.value[..])
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|known| &known.name[..])
    }

    /// Gives a name a value.
    ///
    /// # Errors
    /// [`VolumeError::Exists`] and [`VolumeError::NoXattr`] as `how` says; [`VolumeError::XattrsTooLarge`]. Nothing was changed.
    pub fn set(&mut self, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let place = self.0.iter().position(|known| known.name == name);
        match (place, how) {
            (Some(_), SetXattr::Create) => return Err(VolumeError::Exists),
            (None, SetXattr::Replace) => return Err(VolumeError::NoXattr),
            _ => {}
        }
        let before = place.map_or(0, |place| self.0[place].bytes());
        let new = Xattr { name: name.to_vec(), value: value.to_vec() };
        if self.bytes() - before + new.bytes() > XATTRS_BYTES_MAX
            || (place.is_none() && self.list_bytes() + name.len() + 1 > XATTR_LIST_BYTES_MAX)
        {
            return Err(VolumeError::XattrsTooLarge);
        }
        match place {
            Some(place) => self.0[place] = new,
            None => self.0.push(new),
        }
        Ok(())
    }

    /// Takes a name away; returns whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.name != name);
        self.0.len() < before
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Xattr::bytes).sum()
    }

    fn list_bytes(&self) -> usize {
        self.0.iter().map(|known| known.name.len() + 1).sum()
    }
}

impl Xattr {
    fn bytes(&self) -> usize {
        HEADER_BYTES + self.name.len() + self.value.len()
    }
}

/// Checks that an attribute can have this name and value.
fn check_xattr(name: &[u8], value: &[u8]) -> Result<()> {
    if !name.starts_with(PREFIX) {
        return Err(VolumeError::XattrNotSupported);
    }
    if name.len() == PREFIX.len() || name.contains(&0) {
        return Err(VolumeError::Invalid("an extended attribute needs a name behind `user.`, without NUL"));
    }
    if name.len() > XATTR_NAME_BYTES_MAX {
        return Err(VolumeError::XattrNameTooLong);
    }
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(VolumeError::XattrsTooLarge);
    }
    Ok(())
}

impl Volume {
    /// The value of an extended attribute of a file or folder.
    ///
    /// # Errors
    /// [`VolumeError::NoXattr`], also for names that cannot be set; it could not be read.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let _names = self.read_names();
        let known = self.xattrs_of(ino, &self.core().inode(ino)?)?;
        known.get(name).map(<[u8]>::to_vec).ok_or(VolumeError::NoXattr)
    }

    /// All extended attributes of a file or folder.
    ///
    /// # Errors
    /// They could not be read.
    pub fn xattrs(&self, ino: Ino) -> Result<Xattrs> {
        let _names = self.read_names();
        self.xattrs_of(ino, &self.core().inode(ino)?)
    }

    /// Gives an extended attribute a value, or changes it, atomically.
    ///
    /// # Errors
    /// [`VolumeError::XattrNotSupported`] for names that do not begin with `user.`; [`VolumeError::NotOwner`] for what is neither file nor folder;
    /// [`VolumeError::XattrNameTooLong`], [`VolumeError::XattrsTooLarge`], [`VolumeError::NoSpace`], [`VolumeError::Exists`] and
    /// [`VolumeError::NoXattr`]. Nothing was changed.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        check_xattr(name, value)?;
        self.change_xattrs(ino, |xattrs| xattrs.set(name, value, how))
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// [`VolumeError::XattrNotSupported`], [`VolumeError::NoXattr`].
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        if !name.starts_with(PREFIX) {
            return Err(VolumeError::XattrNotSupported);
        }
        self.change_xattrs(ino, |xattrs| xattrs.remove(name).then_some(()).ok_or(VolumeError::NoXattr))
    }

    fn change_xattrs(&self, ino: Ino, change_list: impl FnOnce(&mut Xattrs) -> Result<()>) -> Result<()> {
        let _names = self.write_names();
        let inode = self.core().inode(ino)?;
        if !matches!(inode.kind, Kind::File | Kind::Folder) {
            return Err(VolumeError::NotOwner);
        }
        let before = self.xattrs_of(ino, &inode)?;
        let mut xattrs = before.clone();
        change_list(&mut xattrs)?;
        if xattrs == before && inode.xattrs != 0 {
            return Ok(());
        }
        let change = self.core().begin()?;
        let bytes = xattrs.encode();
        let holder = if bytes.is_empty() {
            self.free_xattrs(&change, ino, &inode)?;
            0
        } else {
            self.put_xattrs(&change, ino, &inode, &before.encode(), &bytes)?
        };
        let noted = change.update_inode(ino, |inode| {
            inode.xattrs = holder;
            inode.changed_at = Time::now();
        });
        noted.map(drop).inspect_err(|error| self.core().stop(error))
    }

    /// Writes the pages that differ; returns the number of the inode that has them. Room for all of them is promised before one is written.
    fn put_xattrs(
        &self,
        change: &Change<'_>,
        ino: Ino,
        inode: &Inode,
        before: &[u8],
        bytes: &[u8],
    ) -> Result<u32> {
        let pages = |bytes: &[u8]| bytes.len().div_ceil(PAGE_BYTES);
        let mut new = pages(bytes) as u64;
        if inode.xattrs != 0 {
            new = 0;
            for page in 0..pages(bytes) as u32 {
                new += u64::from(self.needs_room(PageKey::data(Ino(inode.xattrs), page))?);
            }
        }
        change.reserve(ino, new)?;
        let holder = if inode.xattrs == 0 {
            let mut made = Inode::new(Kind::Xattrs, 0, inode.uid, inode.gid);
            made.parent = ino;
            change.make_inode(made)?
        } else {
            Ino(inode.xattrs)
        };
        // Half of it must never be committed.
        self.write_xattrs(change, holder, before, bytes).inspect_err(|error| self.core().stop(error))?;
        Ok(holder.0)
    }

    fn write_xattrs(&self, change: &Change<'_>, holder: Ino, before: &[u8], bytes: &[u8]) -> Result<()> {
        let mut first = 0;
        let mut pages = before.chunks(PAGE_BYTES);
        for (index, piece) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
            if pages.next() != Some(piece) {
                let mut page = [0; PAGE_BYTES];
                page[..piece.len()].copy_from_slice(piece);
                first += u64::from(change.write_page(PageKey::data(holder, index), 0, &page, None)?);
            }
        }
        let inode = change.update_inode(holder, |inode| {
            inode.size_bytes = bytes.len() as u64;
            inode.pages += first;
        })?;
        let pages = |bytes: &[u8]| bytes.len().div_ceil(PAGE_BYTES) as u64;
        let taken = self.core().take_pages(holder);
        self.free_pages(change, &taken, holder, &inode, pages(bytes)..pages(before).max(pages(bytes)))
    }

    /// Frees the inode that has the attributes of a file. If that inode is damaged, it keeps its room.
    pub(crate) fn free_xattrs(&self, change: &Change<'_>, ino: Ino, inode: &Inode) -> Result<()> {
        if inode.xattrs == 0 || inode.kind == Kind::Xattrs {
            return Ok(());
        }
        let holder = Ino(inode.xattrs);
        match if_readable(self.core().inode(holder)) {
            Ok(Some(found)) if found.holds_xattrs_of(ino) => self.free_file(change, holder, &found),
            Ok(_) | Err(VolumeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The attributes that the inode of a file names. The caller has the names.
    pub(crate) fn xattrs_of(&self, ino: Ino, inode: &Inode) -> Result<Xattrs> {
        if inode.xattrs == 0 {
            return Ok(Xattrs::default());
        }
        let holder = Ino(inode.xattrs);
        let damaged = || VolumeError::Damaged {
            key: PageKey::data(holder, 0),
            what: "its extended attributes make no sense".into(),
        };
        let found = self.core().inode(holder)?;
        if !found.holds_xattrs_of(ino) || found.size_bytes > XATTRS_BYTES_MAX as u64 {
            return Err(damaged());
        }
        let mut bytes = vec![0; found.size_bytes as usize];
        for (index, piece) in (0..).zip(bytes.chunks_mut(PAGE_BYTES)) {
            let key = PageKey::data(holder, index);
            self.core().with_page(key, None, |_, state| state.read(key, 0, piece))?;
        }
        Xattrs::decode(&bytes).ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Xattrs {
        let mut some = Xattrs::default();
        for (name, value) in [(&b"user.a"[..], &b"1"[..]), (b"user.bb", b""), (b"user.c", &[7; 5000])] {
            some.set(name, value, SetXattr::Any).expect("it fits");
        }
        some
    }

    #[test]
    fn are_read_as_written() {
        let some = some();
        let bytes = some.encode();
        assert_eq!(Xattrs::decode(&bytes), Some(some));
        for len in 1..bytes.len() {
            // Only where an attribute ends.
            let is_end = [15, 30].contains(&len);
            assert_eq!(Xattrs::decode(&bytes[..len]).is_some(), is_end, "{len}");
        }
        let twice = [&bytes[..15], &bytes[..15]].concat();
        assert_eq!(Xattrs::decode(&twice), None);
    }

    #[test]
    fn are_made_and_replaced_as_asked() {
        let mut some = some();
        let before = some.clone();
        assert_eq!(some.set(b"user.a", b"2", SetXattr::Create), Err(VolumeError::Exists));
        assert_eq!(some.set(b"user.z", b"2", SetXattr::Replace), Err(VolumeError::NoXattr));
        assert_eq!(some, before);
        some.set(b"user.a", b"22", SetXattr::Replace).expect("it is there");
        assert_eq!(some.get(b"user.a"), Some(&b"22"[..]));
        assert!(some.remove(b"user.a") && !some.remove(b"user.a"));
        assert_eq!(some.names().collect::<Vec<_>>(), [&b"user.bb"[..], b"user.c"]);
    }

    #[test]
    fn all_of_them_have_a_limit() {
        let mut some = Xattrs::default();
        some.set(b"user.a", &[1; XATTR_VALUE_BYTES_MAX], SetXattr::Any).expect("it fits");
        let left = XATTRS_BYTES_MAX - some.encode().len() - 14;
        assert_eq!(some.set(b"user.b", &vec![2; left + 1], SetXattr::Any), Err(VolumeError::XattrsTooLarge));
        some.set(b"user.b", &vec![2; left], SetXattr::Any).expect("it fits");
        assert_eq!(some.encode().len(), XATTRS_BYTES_MAX);
        // A value is replaced by one of the same length.
        some.set(b"user.b", &vec![3; left], SetXattr::Any).expect("it fits");
        let mut many = Xattrs::default();
        let name = |nth: usize| format!("user.{nth:0>250}").into_bytes();
        let most = XATTR_LIST_BYTES_MAX / 256;
        for nth in 0..most {
            many.set(&name(nth), b"", SetXattr::Any).expect("it fits");
        }
        assert_eq!(many.set(&name(most), b"", SetXattr::Any), Err(VolumeError::XattrsTooLarge));
    }
}
