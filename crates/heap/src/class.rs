//! The class of what this thread allocates.

use std::cell::Cell;

use aquifer_base::AllocationClass;

thread_local! {
    static CURRENT: Cell<AllocationClass> = const { Cell::new(AllocationClass::DEFAULT) };
}

/// The class of objects that this thread allocates from now on, in any heap.
pub fn current_class() -> AllocationClass {
    CURRENT.get()
}

/// Objects that this thread allocates from now on, in any heap, are of `class`. Returns the class before.
pub fn set_class(class: AllocationClass) -> AllocationClass {
    CURRENT.replace(class)
}

/// Goes back to a class, also when `work` panics.
struct Before(AllocationClass);

impl Drop for Before {
    fn drop(&mut self) {
        set_class(self.0);
    }
}

/// Runs `work`, in which this thread allocates objects of `class`.
pub fn with_class<T>(class: AllocationClass, work: impl FnOnce() -> T) -> T {
    let _before = Before(set_class(class));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_nest_and_belong_to_a_thread() {
        assert_eq!(current_class(), AllocationClass::DEFAULT);
        with_class(AllocationClass(3), || {
            assert_eq!(with_class(AllocationClass(200), current_class), AllocationClass(200));
            assert_eq!(current_class(), AllocationClass(3));
            assert_eq!(std::thread::spawn(current_class).join().unwrap(), AllocationClass::DEFAULT);
            assert_eq!(set_class(AllocationClass(4)), AllocationClass(3));
        });
        assert_eq!(current_class(), AllocationClass::DEFAULT);
    }

    #[test]
    fn a_panic_ends_the_class() {
        let panicked = std::panic::catch_unwind(|| with_class(AllocationClass(9), || panic!("expected")));
        assert!(panicked.is_err());
        assert_eq!(current_class(), AllocationClass::DEFAULT);
    }
}
