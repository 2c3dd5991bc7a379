//! Named roots: objects that a program finds by their names, and the names of their types.
//!
//! ```text
//! area 0, byte 16:  home address of a tree of bytes, 0 while there are no names
//! key: name; value: home address u64 | name of the type
//! ```

use aquifer_base::HomeAddress;

use crate::access::{Access, Load};
use crate::error::{Error, Result};
use crate::homes;
use crate::reference::Ref;
use crate::structures::BytesTree;
use crate::value::Value;

/// The longest name of a root or of a type.
pub const NAME_BYTES_MAX: usize = 255;
/// What stands before the name of the type.
const REFERENCE_BYTES: usize = 8;

/// A root with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Its name, of 1 to [`NAME_BYTES_MAX`] bytes.
    pub name: Vec<u8>,
    /// The name of its type, which may be empty.
    pub type_name: Vec<u8>,
    /// The object.
    pub object: HomeAddress,
}

impl Root {
    fn decode(name: Vec<u8>, value: &[u8]) -> Result<Self> {
        let (object, type_name) = value
            .split_at_checked(REFERENCE_BYTES)
            .ok_or(Error::WrongKind { home: homes::ROOTS, name: "directory of roots" })?;
        Ok(Self { name, type_name: type_name.to_vec(), object: HomeAddress(u64::decode(object)) })
    }

    /// Refuses another type than its own. An empty one is any.
    fn check(&self, type_name: &[u8]) -> Result<()> {
        if type_name.is_empty() || type_name == self.type_name {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(Error::WrongType {
            root: text(&self.name),
            stored: text(&self.type_name),
            given: text(type_name),
        })
    }
}

fn check_names(name: &[u8], type_name: &[u8]) -> Result<()> {
    let is_name = |bytes: &[u8]| bytes.len() <= NAME_BYTES_MAX && !bytes.contains(&0);
    if !name.is_empty() && is_name(name) && is_name(type_name) { Ok(()) } else { Err(Error::Name) }
}

fn directory<A: Load + ?Sized>(tx: &mut A) -> Result<Option<BytesTree>> {
    let home = HomeAddress(tx.load_u64(homes::ROOTS)?);
    (home.0 != 0).then(|| BytesTree::open(tx, home)).transpose()
}

fn find<A: Load + ?Sized>(tx: &mut A, name: &[u8]) -> Result<Option<Root>> {
    let Some(directory) = directory(tx)? else { return Ok(None) };
    let value = directory.get(tx, name)?;
    value.map(|value| Root::decode(name.to_vec(), &value)).transpose()
}

/// Roots with names. Every transaction has them; what changes one needs a transaction that can.
pub trait Roots: Load {
    /// The object of a name. `type_name` is the name of its type, or empty for any.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the root was given another type, [`Error::Name`]; as [`Load::load`].
    fn named(&mut self, name: &[u8], type_name: &[u8]) -> Result<Option<HomeAddress>> {
        check_names(name, type_name)?;
        let Some(root) = find(self, name)? else { return Ok(None) };
        root.check(type_name)?;
        Ok(Some(root.object))
    }

    /// Gives an object a name, and its type. `type_name` may be empty: then a root that is there keeps its own. With no object, takes
    /// the name away.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the name has a root of another type, [`Error::Name`]; as [`Access::alloc`],
    /// [`Access::store`].
    fn set_named(&mut self, name: &[u8], type_name: &[u8], object: Option<HomeAddress>) -> Result<()>
    where
        Self: Access,
    {
        check_names(name, type_name)?;
        let old = find(self, name)?;
        old.iter().try_for_each(|root| root.check(type_name))?;
        let Some(object) = object else {
            return if old.is_some() { remove(self, name) } else { Ok(()) };
        };
        let kept = old.as_ref().filter(|_| type_name.is_empty());
        let type_name = kept.map_or(type_name, |root| &root.type_name[..]);
        let directory = match directory(self)? {
            Some(directory) => directory,
            None => {
                let directory = BytesTree::create(self)?;
                self.store_u64(homes::ROOTS, directory.home().0)?;
                directory
            }
        };
        directory.put(self, name, &[&object.0.to_le_bytes(), type_name].concat()).map(drop)
    }

    /// The first root whose name is behind `after`, in the order of their bytes; an empty name is before all.
    ///
    /// # Errors
    /// As [`Load::load`].
    fn next_named(&mut self, after: &[u8]) -> Result<Option<Root>> {
        let Some(directory) = directory(self)? else { return Ok(None) };
        let Some((name, value)) = directory.next(self, after)? else { return Ok(None) };
        let value = value.load(self)?;
        Root::decode(name, &value).map(Some)
    }

    /// The object of a name, which must be of type `T`: [`Value::TYPE_NAME`] is compared.
    ///
    /// # Errors
    /// As [`Roots::named`].
    fn named_ref<T: Value>(&mut self, name: &str) -> Result<Option<Ref<T>>> {
        Ok(self.named(name.as_bytes(), T::TYPE_NAME.as_bytes())?.map(Ref::from_home))
    }

    /// Gives an object of type `T` a name, or takes the name away.
    ///
    /// # Errors
    /// As [`Roots::set_named`].
    fn set_named_ref<T: Value>(&mut self, name: &str, object: Option<Ref<T>>) -> Result<()>
    where
        Self: Access,
    {
        self.set_named(name.as_bytes(), T::TYPE_NAME.as_bytes(), object.map(Ref::home))
    }
}

impl<A: Load + ?Sized> Roots for A {}

/// Takes a name away that is there, and the directory with the last one.
fn remove<A: Access + ?Sized>(tx: &mut A, name: &[u8]) -> Result<()> {
    let Some(directory) = directory(tx)? else { return Ok(()) };
    directory.remove(tx, name)?;
    if directory.is_empty(tx)? {
        directory.destroy(tx)?;
        tx.store_u64(homes::ROOTS, 0)?;
    }
    Ok(())
}
