//! Reads a page back as strictly as XML is read.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// What a page is made of; anything else came from somewhere else.
const ELEMENTS: [&str; 36] = [
    "html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "p", "ul", "li", "nav", "a",
    "section", "div", "figure", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "line",
    "rect", "circle", "polyline", "text", "g", "path", "strong", "em", "br", "hr",
];
/// Attributes that hold numbers.
const NUMBERS: [&str; 12] = ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "points"];
/// All other attributes.
const OTHERS: [&str; 17] = [
    "xmlns",
    "lang",
    "charset",
    "name",
    "content",
    "rel",
    "href",
    "class",
    "id",
    "scope",
    "viewBox",
    "role",
    "aria-label",
    "text-anchor",
    "transform",
    "style",
    "title",
];

/// What a page holds.
#[derive(Default)]
pub struct Page {
    /// Elements in their order.
    pub elements: Vec<String>,
    /// All texts, in their order.
    pub text: String,
    /// Pictures in each section, by its name in links.
    pub figures: BTreeMap<String, usize>,
    section: String,
}

/// Reads a page.
///
/// # Panics
/// If it is not well-formed, has an element or attribute that pages do not use, a malformed number, or
/// something from outside.
pub fn read(html: &str) -> Page {
    let mut reader = Reader::from_str(html);
    reader.config_mut().check_end_names = true;
    reader.config_mut().check_comments = true;
    let mut page = Page::default();
    let mut depth = 0usize;
    loop {
        match reader.read_event().expect("a page is well-formed") {
            Event::Start(start) => {
                depth += 1;
                page.open(&start);
            }
            Event::Empty(start) => page.open(&start),
            Event::End(_) => depth -= 1,
            Event::Text(text) => page.text.push_str(&text.decode().expect("a page is UTF-8")),
            Event::GeneralRef(name) => {
                let name = name.decode().expect("a page is UTF-8").into_owned();
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name.as_str()), "&{name};");
                page.text.push_str(&format!("&{name};"));
            }
            Event::DocType(kind) => assert_eq!(kind.decode().expect("a page is UTF-8"), "html"),
            Event::Eof => break,
            other => panic!("a page has no {other:?}"),
        }
    }
    assert_eq!(depth, 0, "elements are open at the end");
    let is_text = |c: char| !c.is_control() || c == '\n' || c == '\t';
    assert!(html.chars().all(is_text), "there are control characters");
    page
}

impl Page {
    fn open(&mut self, start: &BytesStart<'_>) {
        let name = String::from_utf8(start.name().as_ref().to_vec()).expect("names are ASCII");
        assert!(ELEMENTS.contains(&name.as_str()), "<{name}>");
        for attribute in start.attributes() {
            let attribute = attribute.expect("attributes are well-formed");
            let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            let value = String::from_utf8_lossy(&attribute.value).into_owned();
            check_attribute(&name, &key, &value);
            if name == "section" && key == "id" {
                self.section = value;
            }
        }
        if name == "figure" {
            *self.figures.entry(self.section.clone()).or_default() += 1;
        }
        self.elements.push(name);
    }
}

fn check_attribute(element: &str, key: &str, value: &str) {
    if NUMBERS.contains(&key) {
        for number in value.split([' ', ',']) {
            let number: f64 = number.parse().unwrap_or_else(|_| panic!("{key}={value:?}"));
            assert!(number.is_finite(), "{key}={value:?} in <{element}>");
        }
        return;
    }
    assert!(OTHERS.contains(&key), "{key}={value:?} in <{element}>");
    if key == "href" {
        assert!(value.starts_with('#') || value == "data:,", "{value} is outside");
    }
    assert!(!value.contains("NaN") || key == "aria-label", "{key}={value:?} in <{element}>");
}

#[allow(dead_code)] // Comparisons are tried with numbers of all kinds among the pages.
/// Fails if a word of a text is NaN or infinite.
///
/// # Panics
/// Then.
pub fn check_numbers(text: &str) {
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        assert!(!["NaN", "inf", "nan", "infinity"].contains(&word), "{word} in {text}");
    }
}
