//! Which donors to ask for a slab: two random ones that do not fail together, of which the better one lends (the power of two choices).

/// A donor that can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Donors of one domain fail together. An empty name is a domain of its own.
    pub domain: String,
}

/// Two donors, by two random numbers: the second of another domain than the first if there is one, and none if there is one donor alone.
///
/// # Panics
/// There are no candidates.
#[must_use]
pub fn pick_two(candidates: &[Candidate], random: [u64; 2]) -> (usize, Option<usize>) {
    let first = (random[0] % candidates.len() as u64) as usize;
    let is_apart = |nth: &usize| {
        candidates[first].domain.is_empty() || candidates[*nth].domain != candidates[first].domain
    };
    let others = || (0..candidates.len()).filter(|nth| *nth != first);
    let apart: Vec<_> = others().filter(is_apart).collect();
    let second = if apart.is_empty() { others().collect() } else { apart };
    let nth = random[1].checked_rem(second.len() as u64);
    (first, nth.map(|nth| second[nth as usize]))
}

/// Divides `donors` into those that lend nothing to the borrower yet and the others, in their order. The first are asked before the others,
/// so that a donor that fails, or takes slabs back, has few slabs of one borrower.
#[must_use]
pub fn new_first<T>(donors: Vec<T>, lends_already: impl Fn(&T) -> bool) -> (Vec<T>, Vec<T>) {
    donors.into_iter().partition(|donor| !lends_already(donor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(domains: &[&str]) -> Vec<Candidate> {
        domains.iter().map(|domain| Candidate { domain: (*domain).to_string() }).collect()
    }

    #[test]
    fn the_second_fails_with_another_domain() {
        let candidates = candidates(&["a", "a", "b"]);
        for random in 0..100 {
            let (first, second) = pick_two(&candidates, [random, random / 3]);
            let second = second.expect("three donors");
            assert_ne!(candidates[first].domain, candidates[second].domain);
        }
    }

    #[test]
    fn one_domain_is_better_than_none() {
        assert_eq!(pick_two(&candidates(&["a", "a"]), [1, 0]), (1, Some(0)));
        assert_eq!(pick_two(&candidates(&["", ""]), [0, 7]), (0, Some(1)));
        assert_eq!(pick_two(&candidates(&["a"]), [9, 9]), (0, None));
    }

    #[test]
    fn donors_without_a_slab_come_first() {
        assert_eq!(new_first(vec![1, 2, 3, 4], |donor| donor % 2 == 0), (vec![1, 3], vec![2, 4]));
        assert_eq!(new_first(vec![2, 4], |donor| donor % 2 == 0), (vec![], vec![2, 4]));
    }

    #[test]
    fn all_pairs_come() {
        let candidates = candidates(&["", "", "", ""]);
        let pairs: std::collections::BTreeSet<_> = (0..4)
            .flat_map(|a| (0..3).map(move |b| [a, b]))
            .map(|random| pick_two(&candidates, random))
            .collect();
        assert_eq!(pairs.len(), 12);
    }
}
