//! The rectangle that points and bars are drawn in, with title, legend, ticks and labels around it.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, text_width};

/// Width of a picture.
pub(crate) const WIDTH: f64 = 520.0;
/// Height of the part that holds values.
const INNER_HEIGHT: f64 = 210.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 16.0;
const TITLE: f64 = 24.0;
const LEGEND_ROW: f64 = 17.0;
const BELOW: f64 = 44.0;

/// How a series is shown in the legend.
pub(crate) struct Key {
    /// Its name.
    pub name: String,
    /// Classes of its sample.
    pub class: String,
    /// A square rather than a line.
    pub is_area: bool,
}

/// Where values are drawn.
pub(crate) struct Frame {
    pub canvas: Canvas,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// A picture with its title and legend, ready for axes.
    pub(crate) fn new(title: &str, keys: &[Key]) -> Self {
        let rows = legend_rows(keys);
        let top = TITLE + LEGEND_ROW * rows.len() as f64 + 8.0;
        let bottom = top + INNER_HEIGHT;
        let mut canvas = Canvas::new(WIDTH, bottom + BELOW, title);
        canvas.title(title);
        for (row, keys) in rows.iter().enumerate() {
            draw_keys(&mut canvas, TITLE + LEGEND_ROW * (row as f64 + 0.7), keys);
        }
        Self { canvas, left: LEFT, right: WIDTH - RIGHT, top, bottom }
    }

    /// The y axis: lines across and labels beside them.
    pub(crate) fn y_axis(&mut self, axis: &Axis, scale: &Scale) {
        let mut free = f64::INFINITY;
        for (value, label) in &scale.ticks {
            let y = self.y(scale, *value);
            self.canvas.line("grid", (self.left, y), (self.right, y));
            if y + 12.0 < free {
                self.canvas.label("tick", (self.left - 6.0, y + 4.0), Anchor::End, label);
                free = y;
            }
        }
        self.canvas.upright((14.0, f64::midpoint(self.top, self.bottom)), &axis.label);
    }

    /// The x axis: lines upwards and labels below them.
    pub(crate) fn x_axis(&mut self, axis: &Axis, scale: &Scale) {
        let labels: Vec<(f64, &str)> =
            scale.ticks.iter().map(|(value, label)| (self.x(scale, *value), label.as_str())).collect();
        for (x, _) in &labels {
            self.canvas.line("grid", (*x, self.top), (*x, self.bottom));
        }
        self.x_labels(&labels);
        self.x_name(&axis.label);
    }

    /// Labels below the x axis: all of them, or every second, or every third, until none touches another.
    pub(crate) fn x_labels(&mut self, labels: &[(f64, &str)]) {
        let fits = |step: &usize| {
            let chosen: Vec<_> = labels.iter().step_by(*step).collect();
            let ends = |label: &(f64, &str)| {
                (label.0 - text_width(label.1) / 2.0, label.0 + text_width(label.1) / 2.0)
            };
            chosen.windows(2).all(|pair| ends(pair[0]).1 + 5.0 < ends(pair[1]).0)
        };
        let step = (1..=labels.len()).find(fits).unwrap_or(1);
        for (x, label) in labels.iter().step_by(step) {
            self.canvas.label("tick", (*x, self.bottom + 16.0), Anchor::Middle, label);
        }
    }

    /// What the x axis counts, below it.
    pub(crate) fn x_name(&mut self, name: &str) {
        let at = (f64::midpoint(self.left, self.right), self.bottom + 36.0);
        self.canvas.label("name", at, Anchor::Middle, name);
    }

    /// The two lines that values stand on; drawn last, over them.
    pub(crate) fn finish(mut self) -> String {
        self.canvas.line("axis", (self.left, self.top), (self.left, self.bottom));
        self.canvas.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        self.canvas.finish()
    }

    pub(crate) fn x(&self, scale: &Scale, value: f64) -> f64 {
        self.left + scale.share(value) * (self.right - self.left)
    }

    pub(crate) fn y(&self, scale: &Scale, value: f64) -> f64 {
        self.bottom - scale.share(value) * (self.bottom - self.top)
    }
}

/// Keys in rows that are no wider than the picture. A single series needs no key: the title names it.
fn legend_rows(keys: &[Key]) -> Vec<Vec<&Key>> {
    let mut rows: Vec<Vec<&Key>> = Vec::new();
    let mut used = WIDTH;
    for key in keys.iter().filter(|_| keys.len() > 1) {
        let width = key_width(key);
        if used + width > WIDTH - RIGHT {
            rows.push(Vec::new());
            used = 8.0;
        }
        used += width;
        rows.last_mut().expect("the first key opens a row").push(key);
    }
    rows
}

fn key_width(key: &Key) -> f64 {
    text_width(&key.name) + 40.0
}

fn draw_keys(canvas: &mut Canvas, y: f64, keys: &[&Key]) {
    let mut x = 8.0;
    for key in keys {
        if key.is_area {
            canvas.rect(&key.class, (x + 8.0, y - 6.0), (12.0, 12.0), "");
        } else {
            canvas.line(&key.class, (x, y), (x + 20.0, y));
        }
        canvas.label("key", (x + 25.0, y + 4.0), Anchor::Start, &key.name);
        x += key_width(key);
    }
}
