//! Elements of SVG. Whatever numbers come, coordinates are finite.

use std::fmt::Write;

use crate::render::escape::markup;

/// Where a text has its place.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// Estimated width of a text in a plot: letters of 11 pixels in the usual sans-serif fonts.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 5.8
}

/// An `svg` element that grows.
pub(crate) struct Canvas {
    text: String,
}

impl Canvas {
    /// An empty picture of `width` x `height`, with a name for those who cannot see it.
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Self {
        let title = markup(title);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n"
        );
        Self { text }
    }

    /// The title above a picture.
    pub(crate) fn title(&mut self, title: &str) {
        let mut letters = title.chars();
        let capital = letters.next().map(|first| first.to_uppercase().collect::<String>());
        self.label("title", (8.0, 16.0), Anchor::Start, &(capital.unwrap_or_default() + letters.as_str()));
    }

    /// The element.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (place(from), place(to));
        self.write(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>\n"
        ));
    }

    /// A rectangle from its upper left corner; `tip` is shown under the pointer.
    pub(crate) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64), tip: &str) {
        let ((x, y), (width, height)) = (place(corner), place((size.0.max(0.0), size.1.max(0.0))));
        let head =
            format_args!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.write(head);
        self.end("rect", tip);
    }

    pub(crate) fn dot(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        let (x, y) = place(at);
        self.write(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\""));
        self.end("circle", tip);
    }

    pub(crate) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() < 2 {
            return;
        }
        self.write(format_args!("<polyline class=\"{class}\" points=\""));
        for (at, &point) in points.iter().enumerate() {
            let (x, y) = place(point);
            let space = if at > 0 { " " } else { "" };
            self.write(format_args!("{space}{x},{y}"));
        }
        self.text.push_str("\"/>\n");
    }

    pub(crate) fn label(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (x, y) = place(at);
        let anchor = anchor_name(anchor);
        let text = markup(text);
        self.write(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n"
        ));
    }

    /// A text from below to above, centred at its place.
    pub(crate) fn upright(&mut self, at: (f64, f64), text: &str) {
        let (x, y) = place(at);
        let text = markup(text);
        self.write(format_args!(
            "<text class=\"name\" transform=\"translate({x},{y}) rotate(-90)\" text-anchor=\"middle\">{text}</text>\n"
        ));
    }

    fn end(&mut self, name: &str, tip: &str) {
        if tip.is_empty() {
            self.text.push_str("/>\n");
        } else {
            let tip = markup(tip);
            self.write(format_args!("><title>{tip}</title></{name}>\n"));
        }
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("a String takes all that is written");
    }
}

fn anchor_name(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    }
}

/// Tenths of a pixel are enough, and keep the page small.
fn place((x, y): (f64, f64)) -> (f64, f64) {
    (tenths(x), tenths(y))
}

fn tenths(value: f64) -> f64 {
    if value.is_finite() { (value.clamp(-1e5, 1e5) * 10.0).round() / 10.0 } else { 0.0 }
}
