//! Objects as values of Rust types: safe to use, by the rules of references.
//!
//! ```
//! use aquifer::typed::{Array, Ref};
//! use aquifer::{Options, SharedHeap};
//!
//! # fn main() -> Result<(), aquifer::Error> {
//! let heap = SharedHeap::open(Options::new().ram_bytes(16 << 20).flash_bytes(256 << 20))?;
//! let mut vectors: Array<[f32; 32]> = Array::new(&heap, 200_000)?;     // 24 MiB in 16 MiB
//! vectors.write(7)?[0] = 1.5;
//! vectors.write_many(&[8, 9], &[[2.0; 32], [3.0; 32]])?;                // one batch
//! assert_eq!(vectors.read_many(&[7, 9])?, [{ let mut v = [0.0; 32]; v[0] = 1.5; v }, [3.0; 32]]);
//!
//! let mut counter = Ref::new(&heap, 41u64)?;                            // one object
//! *counter.write()? += 1;
//! assert_eq!(*counter.read()?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `array` | many objects of a type, one by one and in batches |
//! | `object` | one object |
//! | `guard` | an object in use |
//! | `later` | a batch in the background, as a future |

mod array;
mod guard;
mod later;
mod object;

pub use array::Array;
pub use bytemuck::Pod;
pub use guard::{Reading, Writing};
pub use later::Later;
pub use object::Ref;

/// What holds for the types of objects.
struct Fits<T>(std::marker::PhantomData<T>);

impl<T> Fits<T> {
    /// Proves it when the program is compiled.
    const PROOF: () = {
        assert!(size_of::<T>() > 0, "an object has at least one byte");
        assert!(size_of::<T>() <= 4096, "an object has one page of addresses");
        assert!(align_of::<T>() <= 8, "objects are aligned to 8 bytes at most");
    };
}
