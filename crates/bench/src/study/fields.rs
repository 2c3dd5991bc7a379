//! Figures and settings by name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Values by name. A value within another is named by both: `memory.rss_bytes`.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of `value`, which is a structure. Those without a value are left out.
    ///
    /// # Panics
    /// If `value` is no structure of plain values.
    pub fn of(value: &impl Serialize) -> Self {
        let mut fields = Self::default();
        match serde_json::to_value(value).expect("plain fields") {
            Value::Object(map) => map.into_iter().for_each(|(name, value)| fields.add(name, value)),
            other => panic!("{other} has no fields"),
        }
        fields
    }

    fn add(&mut self, name: String, value: Value) {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                map.into_iter().for_each(|(inner, value)| self.add(format!("{name}.{inner}"), value));
            }
            value => _ = self.0.insert(name, value),
        }
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.add(name.to_owned(), serde_json::to_value(value).expect("plain fields"));
        self
    }

    /// With all others.
    #[must_use]
    pub fn and(mut self, others: Fields) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The value `name`; `None` without it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The number `name`; `None` without it.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// The value `name` as it is shown; empty without it.
    pub fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(is_so)) => if *is_so { "yes" } else { "no" }.to_owned(),
            Some(value) => value.to_string(),
        }
    }

    /// All names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Outer {
        a: u32,
        b: Option<f64>,
        c: Inner,
        d: bool,
    }

    #[derive(Serialize)]
    struct Inner {
        e: &'static str,
    }

    #[test]
    fn structures_are_flat() {
        let fields = Fields::of(&Outer { a: 7, b: None, c: Inner { e: "x" }, d: true }).with("f", 1.5);
        assert_eq!(fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c.e", "d", "f"]);
        assert_eq!((fields.number("a"), fields.number("b"), fields.number("c.e")), (Some(7.0), None, None));
        let texts = ["a", "b", "c.e", "d", "f"].map(|name| fields.text(name));
        assert_eq!(texts, ["7", "", "x", "yes", "1.5"]);
    }
}
