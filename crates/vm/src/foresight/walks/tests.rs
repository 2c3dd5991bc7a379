use super::*;

const WINDOW: i64 = WINDOW_MAX_DEFAULT as i64;

/// What is asked for when these pages are touched, all in one leaf.
fn requests(pages: impl IntoIterator<Item = i64>, window_max: i64) -> Vec<Request> {
    let mut leaf = OfLeaf::default();
    pages.into_iter().filter_map(|page| leaf.note(page).read_ahead(Order::Unknown, window_max)).collect()
}

fn asked(pages: impl IntoIterator<Item = i64>) -> Vec<i64> {
    requests(pages, WINDOW).into_iter().flat_map(Request::pages).map(|page| page.0 as i64).collect()
}

/// A fault with which all pages were mapped that were asked for.
fn fault(walks: &Walks, page: u64) -> usize {
    let (along, _) = walks.note_in_fault(PageId(page), None);
    walks.note_along_in_fault(PageId(page), along);
    along
}

// ---- Read ahead --------------------------------------------------------------

#[test]
fn no_more_is_read_ahead_than_the_window() {
    for window in [8, 64, 256] {
        let requests = requests(50_000..51_000, window);
        assert!(requests.iter().all(|request| request.count <= window));
        // What is asked for when half of it is used up is the other half at least.
        let settled = &requests[requests.len() / 2..];
        assert!(settled.iter().all(|request| request.count >= window / 2), "{settled:?}");
    }
}

#[test]
fn steady_walks_ask_for_each_page_ahead_once() {
    for stride in [1, 3, -2, 100] {
        let asked = asked((0..200).map(|n| 50_000 + n * stride));
        let expected: Vec<_> = (0..asked.len() as i64).map(|n| asked[0] + n * stride).collect();
        assert_eq!(asked, expected, "stride {stride}");
        assert!(asked.len() > 200 && asked[0] == 50_000 + (i64::from(STEADY) + 1) * stride);
    }
}

#[test]
fn walks_through_the_same_leaf_are_told_apart() {
    let (first, second, third) = (50_000, 50_100, 50_300);
    let merge = (0..90).flat_map(|n| [first + n, second + n, third + 2 * n, third + 2 * n + 1]);
    let mut asked = asked(merge);
    asked.sort_unstable();
    let mut expected: Vec<i64> = (0..90).flat_map(|n| [first + n, second + n]).collect();
    expected.extend(third..third + 180);
    let known = expected.iter().filter(|page| asked.binary_search(page).is_ok()).count();
    assert!(known >= expected.len() - 12, "{known} of {}", expected.len());
    // A fault now and then elsewhere ends none of them.
    let mut leaf = OfLeaf::default();
    let with_others = (0..90).flat_map(|n| [first + n, second + n, 50_400 + n * 37 % 101]);
    let asked: usize = with_others
        .filter_map(|page| leaf.note(page).read_ahead(Order::Unknown, WINDOW))
        .map(|request| request.count as usize)
        .sum();
    assert!(asked >= 170, "{asked}");
}

#[test]
fn a_page_that_is_touched_again_does_not_end_its_walk() {
    let twice = asked((50_000..50_050).flat_map(|page| [page, page]));
    assert_eq!(twice, asked(50_000..50_050));
}

#[test]
fn pages_that_were_mapped_along_are_part_of_the_walk() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    let mut page = 50_176;
    let mut asked = Vec::new();
    for along in [0, 0, 2, 5, 0, 16, 16, 0] {
        let (_, request) = walks.note_in_fault(PageId(page), Some(Order::Unknown));
        asked.extend(request.into_iter().flat_map(Request::pages).map(|page| page.0));
        walks.note_along_in_fault(PageId(page), along);
        page += 1 + along as u64;
    }
    assert!(asked.is_sorted_by(|a, b| a < b) && asked.len() > 50, "{asked:?}");
}

#[test]
fn random_faults_ask_for_nothing() {
    assert_eq!(asked([5, 900, 17, 2000, 2001, 40, 41, 7]), []);
    assert_eq!(asked([5; 20]), [], "the same page again and again");
}

#[test]
fn a_walk_goes_on_in_the_next_leaf() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    let pages = (500..520).filter_map(|page| walks.note_in_fault(PageId(page), Some(Order::Unknown)).1);
    let asked: Vec<_> = pages.flat_map(Request::pages).map(|page| page.0).collect();
    let expected: Vec<_> = (asked[0]..asked[0] + asked.len() as u64).collect();
    assert_eq!(asked, expected);
    assert!(fault(&walks, 520) > 2, "pages are mapped along there at once");
}

// ---- Mapped along --------------------------------------------------------------

#[test]
fn pages_are_mapped_along_only_in_order() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    let along = [512, 513, 514, 517, 530, 600].map(|page| fault(&walks, page));
    assert_eq!(along, [0, 0, 2, 5, 0, 0]);
}

#[test]
fn two_walks_through_a_leaf_both_map_along() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    let along = [512, 700, 513, 701, 514, 702, 517, 705].map(|page| fault(&walks, page));
    assert_eq!(along, [0, 0, 0, 0, 2, 2, 5, 5]);
}

#[test]
fn a_walk_goes_on_where_nothing_was_mapped_along() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    let along: Vec<_> = (512..520).map(|page| walks.note_in_fault(PageId(page), None).0).collect();
    assert_eq!(along, [0, 0, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn pages_of_the_next_leaf_are_not_mapped_along() {
    let walks = Walks::new(WINDOW_MAX_DEFAULT);
    for page in 0..1024 {
        let along = walks.note_in_fault(PageId(page), None).0 as u64;
        assert_eq!((page + along) / 512, page / 512);
    }
}
