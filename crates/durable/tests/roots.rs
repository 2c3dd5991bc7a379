//! Named roots, against a model; their types; and files from before there were any.

use std::collections::BTreeMap;

use aquifer_base::HomeAddress;
use aquifer_durable::structures::HashMap;
use aquifer_durable::{
    Backing, DurableHeap, Error, NAME_BYTES_MAX, Options, Result, Roots, Transaction, Typed, durable_struct,
};
use proptest::prelude::*;

fn open(path: &std::path::Path) -> DurableHeap {
    let options = Options { capacity_bytes: 64 << 20, backing: Backing::Memory, ..Options::default() };
    DurableHeap::open(path, &options).expect("opens")
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, HomeAddress)>;

fn all(tx: &mut Transaction<'_>) -> Result<Model> {
    let (mut found, mut after) = (Model::new(), Vec::new());
    while let Some(root) = tx.next_named(&after)? {
        assert!(root.name > after);
        after = root.name.clone();
        found.insert(root.name, (root.type_name, root.object));
    }
    Ok(found)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(1..=255u8, 1..3),
        (0..60u8).prop_map(|n| format!("the accounts of branch {n}").into_bytes()),
        (1..4u8).prop_map(|n| vec![n; NAME_BYTES_MAX]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn names_are_those_of_the_model(
        steps in prop::collection::vec((name(), 0..5u8, any::<bool>(), any::<bool>()), 1..120)
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("heap");
        let (mut heap, mut model) = (open(&path), Model::new());
        for (n, (name, kind, is_set, is_reopened)) in steps.into_iter().enumerate() {
            let type_name = if kind == 0 { Vec::new() } else { vec![b'a' + kind; usize::from(kind)] };
            let object = HomeAddress((n as u64 + 1) << 24);
            let is_wrong = model.get(&name).is_some_and(|(old, _)| kind != 0 && *old != type_name);
            let outcome = heap.transaction(|tx| tx.set_named(&name, &type_name, is_set.then_some(object)));
            let found = heap.transaction(|tx| tx.named(&name, &type_name));
            if is_wrong {
                assert!(matches!(outcome, Err(Error::WrongType { .. })));
                assert!(matches!(found, Err(Error::WrongType { .. })));
            } else {
                outcome.expect("room");
                assert_eq!(found.expect("nobody else"), is_set.then_some(object));
                let old = model.remove(&name).map(|(old, _)| old);
                if is_set {
                    let kept = old.filter(|_| kind == 0);
                    model.insert(name, (kept.unwrap_or(type_name), object));
                }
            }
            if is_reopened && n % 8 == 0 {
                drop(heap);
                heap = open(&path);
            }
            assert_eq!(heap.transaction(all).expect("nobody else"), model);
        }
        for name in model.keys() {
            heap.transaction(|tx| tx.set_named(name, b"", None)).expect("room");
        }
        let left = heap.transaction(|tx| tx.next_object(HomeAddress(0))).expect("nobody else");
        assert_eq!(left, None, "the directory goes with the last name");
    }
}

durable_struct! {
    #[derive(PartialEq, Debug)]
    struct Shop {
        stock: HashMap<u64, u64>,
    }
}

durable_struct! {
    struct Garage {
        cars: u64,
    }
}

#[test]
fn a_root_is_of_its_type() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("heap");
    let heap = open(&path);
    let made = heap.transaction(|tx| {
        let stock = HashMap::create(tx)?;
        let shop = tx.create(Shop { stock })?;
        tx.set_named_ref("shop", Some(shop))?;
        Ok((shop, stock))
    });
    let (shop, stock) = made.expect("room");
    drop(heap);
    let heap = open(&path);
    let found = heap.read(|tx| {
        let shop = tx.named_ref::<Shop>("shop")?.expect("it was set");
        assert_eq!(tx.get(shop)?, Shop { stock });
        assert_eq!(tx.named_ref::<Shop>("another shop")?, None);
        Ok(shop)
    });
    assert_eq!(found.expect("nobody else"), shop);
    let wrong = heap.read(|tx| tx.named_ref::<Garage>("shop")).expect_err("it is a shop");
    assert_eq!(wrong.to_string(), "the root 'shop' is of type 'Shop', not 'Garage'");
    let wrong = heap.transaction(|tx| {
        let garage = tx.create(Garage { cars: 1 })?;
        tx.set_named_ref("shop", Some(garage))
    });
    assert!(matches!(wrong, Err(Error::WrongType { .. })));
    let long = [b'x'; NAME_BYTES_MAX + 1];
    for (name, type_name) in
        [(&b""[..], &b""[..]), (&long, b""), (b"shop", &long), (b"a\0", b""), (b"a", b"\0")]
    {
        assert!(matches!(heap.read(|tx| tx.named(name, type_name)), Err(Error::Name)));
    }
}

/// The single root is another one.
#[test]
fn the_first_object_and_names_do_not_meet() {
    let dir = tempfile::tempdir().expect("a directory");
    let heap = open(&dir.path().join("heap"));
    let outcome = heap.transaction(|tx| {
        let (first, named) = (tx.create(1u64)?, tx.create(2u64)?);
        tx.set_root_ref(first)?;
        tx.set_named_ref("named", Some(named))?;
        assert_eq!(tx.root_ref::<u64>()?, Some(first));
        assert_eq!(tx.named_ref::<u64>("named")?, Some(named));
        tx.set_named_ref::<u64>("named", None)?;
        assert_eq!(tx.root_ref::<u64>()?, Some(first));
        tx.named_ref::<u64>("named")
    });
    assert_eq!(outcome.expect("room"), None);
}
