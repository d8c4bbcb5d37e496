//! Events as JSON for machines: an object for each.

use serde_json::{Map, Value, json};

use super::{Contents, Error, Event, contents};

/// An event: `offset`, `depth`, and of an encoding `header` (bytes of identifier and length), `length` (none where
/// it is indefinite), `form`, `class`, `number`, `type`, `constructed`, `value` and `hex`.
pub fn object(event: &Event<'_>) -> Value {
    let element = match event {
        Event::End { offset, depth } => {
            return json!({ "offset": offset, "depth": depth, "type": "end-of-contents" });
        }
        Event::Element(element) => element,
    };
    let header = element.header;
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
    set("offset", json!(element.offset));
    set("depth", json!(element.depth));
    set("header", json!(header.octets));
    set("length", json!(header.length.definite()));
    set("form", json!(header.length.form()));
    set("class", json!(header.class.as_str()));
    set("number", json!(header.number));
    if let Some(name) = element.name() {
        set("type", json!(name));
    }
    set("constructed", json!(header.constructed));
    if element.holds {
        set("holds", json!(true));
    } else if !header.constructed {
        let value = match contents(element) {
            Contents::Boolean(value) => Some(json!(value)),
            Contents::Number(text) => {
                Some(text.parse::<i64>().map_or_else(|_| json!(text), |n| json!(n)))
            }
            Contents::Real(real) if real.is_finite() => Some(json!(real)),
            Contents::Real(real) => Some(json!(real.to_string())),
            Contents::Oid(text) | Contents::Text(text) => Some(json!(text)),
            Contents::Time(_, iso) => Some(json!(iso)),
            Contents::Bits(unused) => {
                Some(json!({ "bits": 8 * (element.contents.len() - 1) - usize::from(unused) }))
            }
            Contents::Malformed(what) => {
                set("malformed", json!(what));
                None
            }
            Contents::Null | Contents::Octets | Contents::Wide(_) => None,
        };
        if let Some(value) = value {
            set("value", value);
        }
        set("hex", json!(data_encoding::HEXLOWER.encode(element.contents)));
    }
    Value::Object(object)
}

/// What ended the walk.
pub fn error(error: &Error) -> Value {
    json!({ "error": error.problem.to_string(), "offset": error.offset })
}
