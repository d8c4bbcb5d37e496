//! Names of a specification as names of Rust: what a crate's items and calls are called, and which names of two things would
//! be one. Whatever else the generated text names it names by a path that begins with a small letter, as none of these does.

use fusewire_asn1::Span;
use fusewire_asn1::rust::{camel, snake};

use super::reader::Reader;
use super::specification::Specification;

/// The items of a role's end.
pub fn of_role(role: &str) -> Vec<String> {
    let role = camel(role);
    let beside = ["To", "Ask", "Next"].map(|prefix| format!("{prefix}{role}"));
    let halves = ["Sender", "Receiver"].map(|half| format!("{role}{half}"));
    [role].into_iter().chain(beside).chain(halves).collect()
}

/// What answers a request.
pub fn of_answer(request: &str) -> String {
    format!("Answer{}", camel(request))
}

/// A type of ADU behind `send_` or `ask_`.
pub fn of_call(adu: &str) -> String {
    snake(adu).trim_start_matches("r#").to_owned()
}

/// Says which names would be one in Rust.
pub fn check(reader: &mut Reader<'_>, of: &Specification, role_spans: &[Span]) {
    let mut items: Vec<(String, String)> = Vec::new();
    for (place, role) in of.roles.iter().enumerate() {
        let span = role_spans.get(place).copied().unwrap_or(Span::new(0, 0));
        // One is enough: what is said of the role is said of all of its items.
        of_role(role).into_iter().all(|item| take(reader, &mut items, item, (role, span)));
    }
    let (mut types, mut calls) = (Vec::new(), Vec::new());
    for adu in &of.adus {
        let by = (adu.name.as_str(), adu.span);
        if take(reader, &mut types, camel(&adu.name), by) {
            take(reader, &mut calls, of_call(&adu.name), by);
        }
        if adu.reply.value.is_some() {
            take(reader, &mut items, of_answer(&adu.name), by);
        }
    }
}

/// Whether a name was free, which `by` takes then.
fn take(
    reader: &mut Reader<'_>,
    taken: &mut Vec<(String, String)>,
    name: String,
    (by, span): (&str, Span),
) -> bool {
    let before = taken.iter().find(|(one, _)| *one == name).map(|(_, by)| by.clone());
    match before {
        Some(before) => {
            let message = format!("`{by}` and `{before}` are both `{name}` in Rust");
            reader.error(span, message, "call one of them otherwise");
            false
        }
        None => {
            taken.push((name, by.to_owned()));
            true
        }
    }
}
