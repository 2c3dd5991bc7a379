//! Which panel stands where.

use ratatui::layout::Rect;

/// From this size on there are two columns of framed panels.
const FRAMED: (u16, u16) = (100, 22);
/// A line of explanation needs a screen that has room for more.
const FOOTER_FROM: u16 = 8;
/// Columns that the right side needs for its numbers.
const RIGHT_COLUMNS: u16 = 52;
/// Most rows of history in one column.
const HISTORY_MAX: u16 = 12;
/// Rows of totals, titles and one donor.
const DONORS_LEAST: u16 = 4;
/// Rows of a frame.
const FRAME: u16 = 2;
/// Rows of everything else in one column: what it needs at least.
const STACK_LEAST: u16 = 18;

/// What can stand somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Which process, how often, and what is wrong.
    Header,
    /// How full RAM and flash are.
    Tiers,
    /// What faults found.
    Faults,
    /// What goes to and from the device.
    Device,
    /// Cleaner and writer.
    Background,
    /// Faults over time.
    History,
    /// How long reads from flash took.
    Latency,
    /// Memory of other machines.
    Donors,
    /// Keys.
    Footer,
}

/// A part and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The part.
    pub part: Part,
    /// Where; never empty.
    pub area: Rect,
    /// Whether a frame is around it.
    pub is_framed: bool,
}

/// Divides `area` into places that do not overlap, for a heap with `donors` donors and `background_rows` rows about cleaner and writer. A part without
/// room gets no place.
pub fn arrange(area: Rect, donors: usize, background_rows: usize) -> Vec<Place> {
    let background_rows = u16::try_from(background_rows).unwrap_or(u16::MAX / 2);
    let plain = |part, area| Place { part, area, is_framed: false };
    let footer_rows = u16::from(area.height >= FOOTER_FROM);
    let header = Rect { height: area.height.min(1), ..area };
    let body_rows = area.height.saturating_sub(1 + footer_rows);
    let body = Rect { y: area.y + header.height, height: body_rows, ..area };
    let footer = Rect { y: body.y + body.height, height: footer_rows, ..area };
    let mut places = vec![plain(Part::Header, header), plain(Part::Footer, footer)];
    let framed_donors = if donors == 0 { 0 } else { DONORS_LEAST + FRAME };
    if area.width >= FRAMED.0 && area.height >= FRAMED.1 + framed_donors {
        let (body, below) = split(body, FRAMED.1 - 2, donors, FRAME);
        places.extend(framed(body, background_rows));
        places.push(Place { part: Part::Donors, area: below, is_framed: true });
    } else {
        let (body, below) = split(body, STACK_LEAST, donors, 0);
        places.extend(stack(body, &heights(body.height, background_rows), false));
        places.push(plain(Part::Donors, below));
    }
    places.retain(|place| !place.area.is_empty());
    places
}

/// Leaves room below for donors, their totals, titles and some more rows, but not less than `least` rows for all else.
fn split(body: Rect, least: u16, donors: usize, more: u16) -> (Rect, Rect) {
    let wanted =
        if donors == 0 { 0 } else { DONORS_LEAST - 1 + more + u16::try_from(donors).unwrap_or(u16::MAX / 2) };
    let below = wanted.min(body.height.saturating_sub(least));
    let above = body.height - below;
    (Rect { height: above, ..body }, Rect { y: body.y + above, height: below, ..body })
}

fn framed(body: Rect, background_rows: u16) -> Vec<Place> {
    let right_columns = RIGHT_COLUMNS.max(body.width / 2);
    let left = Rect { width: body.width - right_columns, ..body };
    let right = Rect { x: left.x + left.width, width: right_columns, ..body };
    // Rows, column titles and frames of the panels; what is left is for the last one.
    let left_rows = [(Part::Tiers, 6 + 2), (Part::Faults, 1 + 5 + 2), (Part::History, body.height - 16)];
    let (device, latency_least) = (1 + 4 + 2, 5);
    let background = (1 + background_rows + 2).min(body.height - device - latency_least);
    let latency = body.height - device - background;
    let right_rows = [(Part::Device, device), (Part::Background, background), (Part::Latency, latency)];
    [stack(left, &left_rows, true), stack(right, &right_rows, true)].concat()
}

/// Rows of each part in one column: what it needs at least, in order of importance; then what it can use.
fn heights(rows: u16, background_rows: u16) -> [(Part, u16); 6] {
    let needs: [(Part, u16, u16); 6] = [
        (Part::Tiers, 5, 6),
        (Part::Faults, 4, 6),
        (Part::Device, 4, 5),
        (Part::Background, 3, 1 + background_rows),
        (Part::History, 1, 1),
        (Part::Latency, 1, 1),
    ];
    let mut left = rows;
    let mut take = |wanted: u16| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let mut heights = needs.map(|(part, least, _)| (part, take(least)));
    for ((_, height), (_, least, most)) in heights.iter_mut().zip(needs) {
        *height += take(most - least);
    }
    heights[4].1 += (left / 3).min(HISTORY_MAX);
    heights[5].1 += left - (left / 3).min(HISTORY_MAX);
    heights
}

/// Parts below each other.
fn stack(area: Rect, heights: &[(Part, u16)], is_framed: bool) -> Vec<Place> {
    let mut y = area.y;
    let place = |&(part, height): &(Part, u16)| {
        let place = Place { part, area: Rect { y, height, ..area }, is_framed };
        y += height;
        place
    };
    heights.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(width: u16, height: u16) -> Vec<Part> {
        arrange(Rect::new(0, 0, width, height), 0, 5).iter().map(|place| place.part).collect()
    }

    #[test]
    fn places_are_inside_and_apart() {
        for (width, height) in (0..130).step_by(3).flat_map(|w| (0..70).map(move |h| (w, h))) {
            let area = Rect::new(3, 2, width, height);
            let places = arrange(area, usize::from(height) % 4 * 3, 5 + usize::from(width) % 2 * 3);
            for (n, place) in places.iter().enumerate() {
                assert_eq!(place.area.intersection(area), place.area, "{width}x{height} {place:?}");
                for other in &places[n + 1..] {
                    assert!(!place.area.intersects(other.area), "{width}x{height} {place:?} {other:?}");
                }
            }
            let covered: u32 = places.iter().map(|place| place.area.area()).sum();
            assert_eq!(covered, area.area(), "{width}x{height}: nothing is left over");
        }
    }

    #[test]
    fn all_parts_have_a_place_from_the_smallest_terminal_on() {
        for (width, height) in [(60, 20), (80, 24), (100, 30), (300, 100), (100, 20), (60, 100)] {
            assert_eq!(parts(width, height).len(), 8, "{width}x{height}");
        }
    }

    #[test]
    fn donors_have_rows_where_there_is_room() {
        let rows = |width, height, donors| {
            let places = arrange(Rect::new(0, 0, width, height), donors, 5);
            places.iter().find(|place| place.part == Part::Donors).map_or(0, |place| place.area.height)
        };
        assert_eq!((rows(80, 24, 0), rows(80, 24, 2), rows(80, 40, 2)), (0, 4, 5));
        assert_eq!((rows(60, 20, 2), rows(100, 24, 2), rows(120, 40, 2)), (0, 4, 7));
        assert_eq!(rows(120, 40, 1000), 18, "the others keep what they need");
    }

    #[test]
    fn rows_of_compression_have_a_place_where_there_is_room() {
        let rows = |height, background| {
            let places = arrange(Rect::new(0, 0, 110, height), 0, background);
            places.iter().find(|place| place.part == Part::Background).map_or(0, |place| place.area.height)
        };
        assert_eq!((rows(22, 5), rows(22, 8), rows(30, 5), rows(30, 8)), (8, 8, 8, 11));
    }

    #[test]
    fn what_matters_most_stays_longest() {
        assert_eq!(parts(20, 5), [Part::Header, Part::Tiers]);
        assert_eq!(parts(40, 12), [Part::Header, Part::Footer, Part::Tiers, Part::Faults, Part::Device]);
        assert_eq!(parts(1, 1), [Part::Header]);
        assert_eq!(parts(0, 0), []);
    }
}
