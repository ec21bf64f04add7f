//! Single members of JSON objects, without building the rest.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::text::utf8;

/// Whether these bytes are one JSON text.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    utf8(bytes).is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The JSON texts of the named members of an object, `None` where there is no such member; of members that occur
/// twice the last, as readers of JSON take it. `None` when this is no JSON object.
pub(crate) fn members<'a>(bytes: &'a [u8], names: &[Box<[u8]>]) -> Option<Vec<Option<&'a str>>> {
    let text = utf8(bytes)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let found = json.deserialize_map(Members { names, found: vec![None; names.len()] }).ok()?;
    json.end().ok()?;
    Some(found)
}

/// A JSON text as a column shows it: strings without quotes and escapes, everything else as it stands. A string that
/// UTF-8 cannot hold (half a surrogate pair) stays as it stands too.
pub(crate) fn shown(raw: &str) -> std::borrow::Cow<'_, str> {
    if raw.starts_with('"')
        && let Ok(text) = serde_json::from_str::<Text<'_>>(raw)
    {
        return text.0;
    }
    raw.into()
}

/// A JSON number that is a whole one in the range of `i64`, however it is written.
pub(crate) fn whole(raw: &str) -> Option<i64> {
    if let Ok(n) = raw.parse() {
        return Some(n);
    }
    if !raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    let x: f64 = raw.parse().ok()?;
    const EXACT: f64 = (1i64 << 53) as f64;
    (x.fract() == 0.0 && x.abs() <= EXACT).then_some(x as i64)
}

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

struct Members<'n, 'a> {
    names: &'n [Box<[u8]>],
    found: Vec<Option<&'a str>>,
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = Vec<Option<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<Self::Value, M::Error> {
        while let Some(at) = map.next_key_seed(Name(self.names))? {
            match at.and_then(|at| self.found.get_mut(at)) {
                Some(slot) => *slot = Some(map.next_value::<&RawValue>()?.get()),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self.found)
    }
}

/// Reads a member's name as bytes (half surrogates are no fault here) and says which of the wanted ones it is.
struct Name<'n>(&'n [Box<[u8]>]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E: serde::de::Error>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| **wanted == *name))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        self.visit_bytes(name.as_bytes())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Err(E::custom("no name"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str, name: &str) -> Option<Option<String>> {
        let found = members(json.as_bytes(), &[name.as_bytes().into()])?;
        Some(found.first().and_then(|raw| *raw).map(str::to_owned))
    }

    /// Members are found whatever stands around them, and the last of two counts, as in JavaScript.
    #[test]
    fn finds_members() {
        assert_eq!(one(r#"{"a":[{"b":1}], "b" : 2 }"#, "b"), Some(Some("2".into())));
        assert_eq!(one(r#"{"b":1,"b":{"x":null}}"#, "b"), Some(Some(r#"{"x":null}"#.into())));
        assert_eq!(one(r#"{"\u0062":7,"\ud800":1}"#, "b"), Some(Some("7".into())));
        assert_eq!(one("{}", "b"), Some(None));
        for bad in ["", "[1]", "{\"b\":1", "{\"b\":1}x", "{\"b\":01}", "null", "\"b\""] {
            assert_eq!(one(bad, "b"), None, "{bad}");
        }
    }

    /// Nesting is no way to exhaust the stack.
    #[test]
    fn deep_nesting() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(is_json(deep.as_bytes()));
        assert_eq!(one(&format!(r#"{{"a":{deep},"b":3}}"#), "b"), Some(Some("3".into())));
    }

    /// Numbers are whole by value, not by spelling; what `i64` cannot hold exactly is not.
    #[test]
    fn whole_numbers() {
        for (raw, n) in [("5", 5), ("-7", -7), ("5.0", 5), ("1e3", 1000), ("9223372036854775807", i64::MAX)] {
            assert_eq!(whole(raw), Some(n), "{raw}");
        }
        for raw in ["5.5", "1e300", "\"5\"", "true", "null", "9223372036854775808"] {
            assert_eq!(whole(raw), None, "{raw}");
        }
    }

    /// Strings lose quotes and escapes; half a surrogate pair cannot.
    #[test]
    fn shown_texts() {
        assert_eq!(shown(r#""a\nb\u00e9""#), "a\nbé");
        assert_eq!(shown(r#""\ud800""#), r#""\ud800""#);
        assert_eq!(shown("{\"a\": 1}"), "{\"a\": 1}");
    }
}
