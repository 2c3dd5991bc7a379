//! Which objects belong together.

/// A number that a program gives to objects that will live and die together. Leaves hold objects of one class only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct AllocationClass(pub u8);

impl AllocationClass {
    /// The class of a thread that never chose one.
    pub const DEFAULT: Self = Self(0);
}
