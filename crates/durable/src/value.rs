//! Values that may stand in durable memory.
//!
//! A [`Value`] has a fixed number of bytes that mean the same in every process and on every machine. A pointer does not, so no type
//! with one in it is a value: what refers to another object is a [`Ref`](crate::Ref), the object's home address. Structs are
//! declared by [`durable_struct!`](crate::durable_struct), which takes only values as fields.
//!
//! ```
//! use aquifer_durable::{DurableHeap, Options, Ref, Typed, durable_struct};
//!
//! durable_struct! {
//!     /// Somebody who waits, and who waits behind.
//!     #[derive(PartialEq, Debug)]
//!     pub struct Guest {
//!         pub number: u32,
//!         pub name: [u8; 12],
//!         pub behind: Option<Ref<Guest>>,
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("heap");
//! # let options = Options { capacity_bytes: 32 << 20, ..Options::default() };
//! let heap = DurableHeap::open(&path, &options)?;
//! heap.transaction(|tx| {
//!     let ada = tx.create(Guest { number: 1, name: *b"Ada Lovelace", behind: None })?;
//!     let alan = tx.create(Guest { number: 2, name: *b"Alan Turing.", behind: Some(ada) })?;
//!     tx.set_root_ref(alan)
//! })?;
//! drop(heap);
//!
//! let heap = DurableHeap::open(&path, &options)?;
//! let ada = heap.transaction(|tx| {
//!     let alan = tx.root_ref::<Guest>()?.expect("it was set");
//!     let ada = tx.get_field(alan, Guest::FIELDS.behind)?.expect("somebody is there");
//!     tx.set_field(ada, Guest::FIELDS.number, 7)?;
//!     tx.get(ada)
//! })?;
//! assert_eq!(ada, Guest { number: 7, name: *b"Ada Lovelace", behind: None });
//! # Ok(())
//! # }
//! ```

use aquifer_base::limits::LOG_GRAIN_BYTES;

/// A value that may stand in durable memory: a fixed number of bytes, in which numbers are little-endian.
///
/// All bytes are some value: zeros, which a new object has, and also what a [`Ref`](crate::Ref) of the wrong type leads to. Damage
/// is not found here but by the checksums of the heap.
///
/// `usize` is not a `Value`, because its size depends on the machine.
pub trait Value: Copy + 'static {
    /// How many bytes.
    const BYTES: usize;
    /// What a named root of this type is called; empty for any. A struct of [`durable_struct!`](crate::durable_struct) has its own
    /// name, without what it is generic over.
    const TYPE_NAME: &'static str = "";

    /// Writes the value into `out`, which has [`Value::BYTES`].
    fn encode(&self, out: &mut [u8]);

    /// The value that stands in `bytes`, of which there are [`Value::BYTES`].
    fn decode(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            const BYTES: usize = size_of::<$number>();
            const TYPE_NAME: &'static str = stringify!($number);

            #[inline]
            fn encode(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                let mut number = [0; size_of::<$number>()];
                number.copy_from_slice(bytes);
                <$number>::from_le_bytes(number)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Value for bool {
    const BYTES: usize = 1;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        out[0] = u8::from(*self);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    const BYTES: usize = T::BYTES * N;

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        for (n, value) in self.iter().enumerate() {
            value.encode(&mut out[n * T::BYTES..][..T::BYTES]);
        }
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        std::array::from_fn(|n| T::decode(&bytes[n * T::BYTES..][..T::BYTES]))
    }
}

impl Value for () {
    const BYTES: usize = 0;

    #[inline]
    fn encode(&self, _out: &mut [u8]) {}

    #[inline]
    fn decode(_bytes: &[u8]) -> Self {}
}

macro_rules! tuples {
    ($(($($name:ident $n:tt),*))*) => {$(
        impl<$($name: Value),*> Value for ($($name,)*) {
            const BYTES: usize = 0 $(+ $name::BYTES)*;

            #[inline]
            fn encode(&self, out: &mut [u8]) {
                let rest = out;
                $(
                    let (field, rest) = rest.split_at_mut($name::BYTES);
                    self.$n.encode(field);
                )*
                debug_assert!(rest.is_empty());
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                let mut rest = bytes;
                let value = ($({
                    let (field, behind) = rest.split_at($name::BYTES);
                    rest = behind;
                    $name::decode(field)
                },)*);
                debug_assert!(rest.is_empty());
                value
            }
        }
    )*};
}

tuples!((A 0)(A 0, B 1)(A 0, B 1, C 2)(A 0, B 1, C 2, D 3));

/// Declares a struct that is a [`Value`]: its fields stand one behind the other, in the order in which they are declared.
///
/// It is `Copy`. Other traits can be derived, and it may have type parameters, all of which are values. `FIELDS` names its fields for
/// [`Typed::get_field`](crate::Typed::get_field) and [`Typed::set_field`](crate::Typed::set_field).
///
/// ```
/// use aquifer_durable::{Ref, Value, durable_struct};
///
/// durable_struct! {
///     /// One of many.
///     pub struct Link<T> {
///         pub value: T,
///         next: Option<Ref<Link<T>>>,
///     }
/// }
/// assert_eq!(Link::<u32>::BYTES, 12);
/// ```
///
/// Fields that point into the memory of this process are refused when the program is compiled. A reference is:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: &'static u64 } }
/// ```
/// A box is:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: Box<u64> } }
/// ```
/// A shared pointer is:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: std::rc::Rc<u64> } }
/// ```
/// A string is:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: String } }
/// ```
/// A raw pointer is:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: *const u64 } }
/// ```
/// And so is a number as large as a pointer:
/// ```compile_fail
/// aquifer_durable::durable_struct! { struct Link { next: usize } }
/// ```
/// The same with a persistent reference compiles:
/// ```
/// aquifer_durable::durable_struct! { struct Link { next: aquifer_durable::Ref<u64> } }
/// ```
#[macro_export]
macro_rules! durable_struct {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(<$($generic:ident),+ $(,)?>)? {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        $visibility struct $name $(<$($generic: $crate::Value),+>)? {
            $($(#[$field_attribute])* $field_visibility $field: $type),+
        }

        impl $(<$($generic: $crate::Value),+>)? $crate::Value for $name $(<$($generic),+>)? {
            const BYTES: usize = 0 $(+ <$type as $crate::Value>::BYTES)+;
            const TYPE_NAME: &'static str = stringify!($name);

            #[inline]
            fn encode(&self, out: &mut [u8]) {
                let rest = out;
                $(
                    let (field, rest) = rest.split_at_mut(<$type as $crate::Value>::BYTES);
                    $crate::Value::encode(&self.$field, field);
                )+
                debug_assert!(rest.is_empty());
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                let mut rest = bytes;
                let value = Self { $($field: {
                    let (field, behind) = rest.split_at(<$type as $crate::Value>::BYTES);
                    rest = behind;
                    $crate::Value::decode(field)
                }),+ };
                debug_assert!(rest.is_empty());
                value
            }
        }

        const _: () = {
            /// Where the fields are.
            #[allow(dead_code)]
            pub struct Fields<Owner $($(, $generic: $crate::Value)+)?> {
                $($(#[$field_attribute])* $field_visibility $field: $crate::Field<Owner, $type>),+
            }

            impl $(<$($generic: $crate::Value),+>)? $name $(<$($generic),+>)? {
                /// Where its fields are.
                #[allow(dead_code)]
                pub const FIELDS: Fields<Self $($(, $generic)+)?> = {
                    let mut at = 0;
                    let fields = Fields { $($field: {
                        let field = $crate::Field::at(at);
                        at += <$type as $crate::Value>::BYTES;
                        field
                    }),+ };
                    assert!(at == <Self as $crate::Value>::BYTES);
                    fields
                };
            }
        };
    };
}

/// Bytes of the grains that `bytes` fill: what is stored in whole grains is stored without a look at what was there.
pub(crate) const fn whole_grains(bytes: usize) -> usize {
    bytes.next_multiple_of(LOG_GRAIN_BYTES)
}

/// Gives `body` a buffer of `bytes` zeros: of the stack, unless it is large.
#[inline]
pub(crate) fn with_buffer<R>(bytes: usize, body: impl FnOnce(&mut [u8]) -> R) -> R {
    match bytes {
        0..=32 => body(&mut [0; 32][..bytes]),
        33..=128 => body(&mut [0; 128][..bytes]),
        129..=STACK_BYTES_MAX => body(&mut [0; STACK_BYTES_MAX][..bytes]),
        _ => body(&mut vec![0; bytes]),
    }
}

/// The largest value that needs no memory of the process's heap.
pub(crate) const STACK_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ref;
    use aquifer_base::HomeAddress;

    durable_struct! {
        #[derive(PartialEq, Debug)]
        struct All<T> {
            small: i8,
            flag: bool,
            rest: (u16, [u32; 2], T),
            there: Ref<u64>,
            nowhere: Option<Ref<All<T>>>,
        }
    }

    #[test]
    fn bytes_are_those_that_are_documented() {
        let there = Ref::from_home(HomeAddress(0x0102));
        let value = All { small: -2, flag: true, rest: (0x0304, [5, 6], 0x0708u16), there, nowhere: None };
        let mut bytes = [9; All::<u16>::BYTES];
        value.encode(&mut bytes);
        let expected =
            [&[0xFE, 1][..], &[4, 3, 5, 0, 0, 0, 6, 0, 0, 0, 8, 7], &[2, 1, 0, 0, 0, 0, 0, 0], &[0; 8]];
        assert_eq!(bytes[..], expected.concat());
        assert_eq!(All::decode(&bytes), value);
        assert_eq!(All::<u16>::FIELDS.there.offset_bytes(), 14);
    }

    #[test]
    fn every_size_has_a_buffer() {
        for bytes in [0, 1, 32, 33, 128, 129, 512, 513, 5000] {
            assert_eq!(with_buffer(bytes, |buffer| buffer.len()), bytes);
        }
        assert_eq!([0, 1, 4, 5].map(whole_grains), [0, 4, 4, 8]);
    }
}
