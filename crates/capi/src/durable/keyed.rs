//! Maps and trees: both have keys and values of bytes, and a tree also an order.

use std::ffi::{c_int, c_void};

use aquifer_base::HomeAddress;
use aquifer_durable::structures::bytes::Entry;
use aquifer_durable::structures::{BytesMap, BytesTree};
use aquifer_durable::{Result, Transaction};

use super::buffer::{Answer, AqBytes, DONE, answered, given, key_in, not_found, put_out};
use super::object::{fail, give};
use super::transaction::{AqTx, change, with};
use super::{ensure_given, number};

/// Gives an entry to the program. `is_given` says whether `key` has a key of the program's.
///
/// # Safety
/// As the header says of an `aq_bytes`.
unsafe fn entry(
    tx: &mut Transaction<'_>,
    found: Option<Entry>,
    (key, is_given): (*mut AqBytes, bool),
    value: *mut AqBytes,
) -> Answer {
    let Some((found_key, found)) = found else { return not_found() };
    // SAFETY: passed on to the caller.
    let answer = unsafe { put_out(tx, (key, &found_key), (value, found)) };
    // SAFETY: NULL, or the caller's structure.
    if let (false, Some(key)) = (is_given, unsafe { key.as_mut() }) {
        key.count = found_key.len();
    }
    answer
}

/// Functions that maps and trees have alike.
macro_rules! keyed {
    ($structure:ident: $create:ident $destroy:ident $put:ident $get:ident $remove:ident $count:ident) => {
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(tx: *mut AqTx, created: *mut u64) -> c_int {
            let outcome = change(tx, |tx| {
                ensure_given(created, "the place for the reference")?;
                Ok($structure::create(tx).map_err(fail)?.home().0)
            });
            // SAFETY: not NULL if the outcome is good.
            unsafe { give(created, outcome) }
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $destroy(tx: *mut AqTx, destroyed: u64) -> c_int {
            number(change(tx, |tx| {
                let structure = $structure::open(tx, HomeAddress(destroyed)).map_err(fail)?;
                structure.destroy(tx).map_err(fail)
            }))
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $put(
            tx: *mut AqTx,
            structure: u64,
            key: *const c_void,
            key_bytes: usize,
            value: *const c_void,
            value_bytes: usize,
        ) -> c_int {
            number(change(tx, |tx| {
                // SAFETY: the caller's bytes.
                let key = unsafe { given(key, key_bytes, "key")? };
                // SAFETY: the caller's bytes.
                let value = unsafe { given(value, value_bytes, "value")? };
                let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                structure.put(tx, key, value).map(drop).map_err(fail)
            }))
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(
            tx: *mut AqTx,
            structure: u64,
            key: *const c_void,
            key_bytes: usize,
            value: *mut AqBytes,
        ) -> c_int {
            answered(with(tx, |tx| {
                // SAFETY: the caller's bytes.
                let key = unsafe { given(key, key_bytes, "key")? };
                let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                let Some(found) = structure.find(tx, key).map_err(fail)? else { return not_found() };
                // SAFETY: the caller's room.
                unsafe { put_out(tx, (std::ptr::null_mut(), &[]), (value, found)) }
            }))
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $remove(
            tx: *mut AqTx,
            structure: u64,
            key: *const c_void,
            key_bytes: usize,
        ) -> c_int {
            answered(change(tx, |tx| {
                // SAFETY: the caller's bytes.
                let key = unsafe { given(key, key_bytes, "key")? };
                let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                if structure.remove(tx, key).map_err(fail)? { DONE } else { not_found() }
            }))
        }

        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $count(tx: *mut AqTx, structure: u64, count: *mut u64) -> c_int {
            let outcome = with(tx, |tx| {
                ensure_given(count, "count")?;
                let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                structure.len(tx).map_err(fail)
            });
            // SAFETY: not NULL if the outcome is good.
            unsafe { give(count, outcome) }
        }
    };
}

/// Functions that give an entry: the first ones by no key, the others by the one in the program's buffer.
macro_rules! entries {
    ($structure:ident; $($by_none:ident: $find_by_none:expr),*; $($by_key:ident: $find_by_key:expr),*) => {
        $(
            /// # Safety
            /// As the header says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $by_none(
                tx: *mut AqTx,
                structure: u64,
                key: *mut AqBytes,
                value: *mut AqBytes,
            ) -> c_int {
                answered(with(tx, |tx| {
                    let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                    let find: fn($structure, &mut Transaction<'_>) -> Result<Option<Entry>> = $find_by_none;
                    let found = find(structure, tx).map_err(fail)?;
                    // SAFETY: the caller's room.
                    unsafe { entry(tx, found, (key, false), value) }
                }))
            }
        )*
        $(
            /// # Safety
            /// As the header says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $by_key(
                tx: *mut AqTx,
                structure: u64,
                key: *mut AqBytes,
                value: *mut AqBytes,
            ) -> c_int {
                answered(with(tx, |tx| {
                    // SAFETY: the caller's key.
                    let from = unsafe { key_in(key)? };
                    let structure = $structure::open(tx, HomeAddress(structure)).map_err(fail)?;
                    let find: fn($structure, &mut Transaction<'_>, &[u8]) -> Result<Option<Entry>> =
                        $find_by_key;
                    let found = find(structure, tx, &from).map_err(fail)?;
                    // SAFETY: the caller's room.
                    unsafe { entry(tx, found, (key, true), value) }
                }))
            }
        )*
    };
}

keyed!(BytesMap: aq_map_create aq_map_destroy aq_map_put aq_map_get aq_map_remove aq_map_count);
entries!(BytesMap;
    aq_map_first: |map, tx| map.next(tx, None);
    aq_map_next: |map, tx, key| map.next(tx, Some(key)));

keyed!(BytesTree: aq_tree_create aq_tree_destroy aq_tree_put aq_tree_get aq_tree_remove aq_tree_count);
entries!(BytesTree;
    aq_tree_first: |tree, tx| tree.first(tx),
    aq_tree_last: |tree, tx| tree.last(tx);
    aq_tree_seek: |tree, tx, key| tree.seek(tx, key),
    aq_tree_next: |tree, tx, key| tree.next(tx, key),
    aq_tree_previous: |tree, tx, key| tree.previous(tx, key));
