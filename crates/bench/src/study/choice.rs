//! Choices on the command line.

use clap::ValueEnum;

/// The chosen values in order, each once; all without a choice.
pub fn each_once<T: ValueEnum + Ord>(chosen: &[T]) -> Vec<T> {
    sorted(if chosen.is_empty() { T::value_variants() } else { chosen })
}

/// Values in order, each once.
pub fn sorted<T: Ord + Clone>(values: &[T]) -> Vec<T> {
    let mut sorted = values.to_vec();
    sorted.sort();
    sorted.dedup();
    sorted
}

/// The name of a value on the command line.
///
/// # Panics
/// If the value is hidden there.
pub fn name_of<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
    enum Fruit {
        Apple,
        RedPear,
    }

    #[test]
    fn nothing_chosen_is_everything() {
        assert_eq!(each_once::<Fruit>(&[]), [Fruit::Apple, Fruit::RedPear]);
        assert_eq!(
            each_once(&[Fruit::RedPear, Fruit::Apple, Fruit::RedPear]),
            [Fruit::Apple, Fruit::RedPear]
        );
        assert_eq!(name_of(&Fruit::RedPear), "red-pear");
    }
}
