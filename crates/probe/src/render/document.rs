//! What a report says, before it takes the form of a page, of Markdown or of text. No text in it is escaped.

use super::svg::Plot;

/// All that is said, in order.
#[derive(Default)]
pub(crate) struct Document {
    /// Of the whole.
    pub title: String,
    /// What must be known before anything is believed.
    pub warnings: Vec<String>,
    /// For those who read nothing else.
    pub summary: Vec<String>,
    /// The sections that were measured.
    pub sections: Vec<Section>,
}

/// One subject.
pub(crate) struct Section {
    /// Its name in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it shows and how it was measured.
    pub text: String,
    /// What was found.
    pub parts: Vec<Part>,
}

/// A piece of a section.
pub(crate) enum Part {
    /// A conclusion, and whether it is a good one.
    Verdict(bool, String),
    /// Pictures side by side. Only pages have them; the tables say the same.
    Plots(Vec<Plot>),
    /// Figures.
    Table(Table),
}

/// Figures in rows and columns.
pub(crate) struct Table {
    /// What they are.
    pub caption: String,
    /// Names of the columns; the first one names the rows.
    pub columns: Vec<String>,
    /// As many cells in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { caption: caption.into(), columns, rows }
    }
}
