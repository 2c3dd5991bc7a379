//! A document as one HTML page. The page is well-formed XML too, which makes it easy to check.

use super::document::{Document, Part, Section, Table};
use super::escape::markup;
use super::svg::Plot;

const STYLE: &str = include_str!("page/style.css");

pub(crate) fn html(document: &Document) -> String {
    let title = markup(&document.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for warning in &document.warnings {
        text.push_str(&format!("<p class=\"verdict bad\">{}</p>\n", markup(warning)));
    }
    write_summary(&mut text, document);
    for section in &document.sections {
        write_section(&mut text, section);
    }
    text.push_str("</body>\n</html>\n");
    text
}

/// What was found, and where to read on.
fn write_summary(text: &mut String, document: &Document) {
    if !document.summary.is_empty() {
        text.push_str("<ul class=\"summary\">\n");
        for finding in &document.summary {
            text.push_str(&format!("<li>{}</li>\n", markup(finding)));
        }
        text.push_str("</ul>\n");
    }
    if document.sections.len() > 1 {
        text.push_str("<nav>\n");
        for section in &document.sections {
            text.push_str(&format!("<a href=\"#{}\">{}</a>\n", section.id, markup(section.title)));
        }
        text.push_str("</nav>\n");
    }
}

fn write_section(text: &mut String, section: &Section) {
    text.push_str(&format!("<section id=\"{}\">\n<h2>{}</h2>\n", section.id, markup(section.title)));
    if !section.text.is_empty() {
        text.push_str(&format!("<p>{}</p>\n", markup(&section.text)));
    }
    for part in &section.parts {
        match part {
            Part::Verdict(is_good, verdict) => {
                let class = if *is_good { "good" } else { "bad" };
                text.push_str(&format!("<p class=\"verdict {class}\">{}</p>\n", markup(verdict)));
            }
            Part::Plots(plots) => write_plots(text, plots),
            Part::Table(table) => write_table(text, table),
        }
    }
    text.push_str("</section>\n");
}

fn write_plots(text: &mut String, plots: &[Plot]) {
    let drawn: Vec<String> = plots.iter().map(Plot::draw).filter(|plot| !plot.is_empty()).collect();
    if drawn.is_empty() {
        return;
    }
    text.push_str("<div class=\"plots\">\n");
    for plot in drawn {
        text.push_str(&format!("<figure>{plot}</figure>\n"));
    }
    text.push_str("</div>\n");
}

fn write_table(text: &mut String, table: &Table) {
    text.push_str("<div class=\"wide\"><table>\n");
    if !table.caption.is_empty() {
        text.push_str(&format!("<caption>{}</caption>\n", markup(&table.caption)));
    }
    text.push_str("<thead><tr>");
    for column in &table.columns {
        text.push_str(&format!("<th scope=\"col\">{}</th>", markup(column)));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let (open, close) = if at == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            text.push_str(&format!("{open}{}{close}", markup(cell)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
}
