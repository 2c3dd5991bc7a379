//! Points and lines over a scale.

use super::axis::{Axis, Scale};
use super::canvas::Anchor;
use super::frame::{Frame, Key};
use crate::render::figures;

/// More points than this are not drawn: of neighbours the highest stands for all.
const POINTS_MAX: usize = 500;
/// Up to here every point has a dot and a tool tip.
const DOTS_MAX: usize = 60;

/// How the points of a series are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// By a line; with dots if they are few.
    Line,
    /// By a broken line without dots: something that was not measured.
    Dashed,
}

/// Points of one colour.
pub(crate) struct Series {
    /// In the legend.
    pub name: String,
    /// In ascending order of x.
    pub points: Vec<(f64, f64)>,
    /// How they are joined.
    pub style: Style,
    /// Number of the colour, below 8.
    pub colour: usize,
}

/// A plot of series.
pub(crate) struct LinePlot {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Horizontal lines with a label each.
    pub bounds: Vec<(f64, String)>,
    /// A part of the x axis that stands out.
    pub window: Option<(f64, f64)>,
}

impl LinePlot {
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { title: title.into(), x, y, series, bounds: Vec::new(), window: None }
    }

    pub(crate) fn draw(&self) -> String {
        let window = self.window.iter().flat_map(|window| [window.0, window.1]);
        let bounds = self.bounds.iter().map(|bound| bound.0);
        let (Some(x), Some(y)) = (
            Scale::of(&self.x, self.points().map(|point| point.0).chain(window)),
            Scale::of(&self.y, self.points().map(|point| point.1).chain(bounds)),
        ) else {
            return String::new();
        };
        let keys: Vec<Key> = self.series.iter().map(Series::key).collect();
        let mut frame = Frame::new(&self.title, &keys);
        if let Some((from, to)) = self.window {
            let (left, right) = (frame.x(&x, from), frame.x(&x, to));
            let size = (right - left, frame.bottom - frame.top);
            frame.canvas.rect("window", (left, frame.top), size, "");
        }
        frame.x_axis(&self.x, &x);
        frame.y_axis(&self.y, &y);
        self.draw_bounds(&mut frame, &y);
        for series in &self.series {
            self.draw_series(&mut frame, (&x, &y), series);
        }
        frame.finish()
    }

    /// All points that have a place on both axes.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series.iter().flat_map(|series| self.placed(series))
    }

    fn placed<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        series.points.iter().copied().filter(|&(x, y)| self.x.takes(x) && self.y.takes(y))
    }

    fn draw_bounds(&self, frame: &mut Frame, y: &Scale) {
        for (value, label) in self.bounds.iter().filter(|bound| self.y.takes(bound.0)) {
            let at = frame.y(y, *value);
            frame.canvas.line("bound", (frame.left, at), (frame.right, at));
            frame.canvas.label("note", (frame.right - 3.0, at - 3.0), Anchor::End, label);
        }
    }

    fn draw_series(&self, frame: &mut Frame, (x, y): (&Scale, &Scale), series: &Series) {
        let points = thinned(self.placed(series).collect());
        let places: Vec<(f64, f64)> =
            points.iter().map(|point| (frame.x(x, point.0), frame.y(y, point.1))).collect();
        let class = series.class();
        frame.canvas.polyline(&class, &places);
        if series.style == Style::Dashed || points.len() > DOTS_MAX {
            return;
        }
        let dot = format!("dot f{}", series.colour % 8);
        for (point, place) in points.iter().zip(places) {
            let tip = format!(
                "{}: {} at {}",
                series.name,
                self.shown(&self.y, point.1),
                self.shown(&self.x, point.0)
            );
            frame.canvas.dot(&dot, place, 2.6, &tip);
        }
    }

    /// A value as its axis labels it.
    fn shown(&self, axis: &Axis, value: f64) -> String {
        match &axis.ticks {
            super::Ticks::Round(format) => format(value),
            super::Ticks::At(ticks) => ticks
                .iter()
                .find(|tick| tick.0 == value)
                .map_or_else(|| figures::number(value), |tick| tick.1.clone()),
        }
    }
}

impl Series {
    pub(crate) fn line(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, style: Style::Line, colour }
    }

    pub(crate) fn dashed(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { style: Style::Dashed, ..Self::line(name, colour, points) }
    }

    fn class(&self) -> String {
        let dashed = if self.style == Style::Dashed { " dashed" } else { "" };
        format!("line s{}{dashed}", self.colour % 8)
    }

    fn key(&self) -> Key {
        Key { name: self.name.clone(), class: self.class(), is_area: false }
    }
}

/// At most [`POINTS_MAX`] points: the highest of each group of neighbours, so that no stall is lost.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let group = points.len().div_ceil(POINTS_MAX);
    let highest = |group: &[(f64, f64)]| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(group).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_point_survives() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
        points[77_777].1 = 9.0;
        let fewer = thinned(points);
        assert!(fewer.len() <= POINTS_MAX);
        assert!(fewer.contains(&(77_777.0, 9.0)));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let series = vec![Series::line("a", 0, vec![(f64::NAN, 1.0), (0.0, 1.0)])];
        assert_eq!(LinePlot::new("t", Axis::log("x"), Axis::linear("y"), series).draw(), "");
    }
}
