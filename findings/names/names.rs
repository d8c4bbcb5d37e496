//! Names of a specification that would be two things in the crate, or none.

use std::collections::BTreeMap;

use fusewire_asn1::Span;
use fusewire_asn1::rust::{camel, snake};

use crate::language::Checked;
use crate::plan::{Plan, Sender};

/// What the crate's own text calls so.
const OURS: &str = "Adu AduType Machine Order Profile Stream Answer Cipher Congestion Listener Allow Error Fingerprint \
    Identity Result SocketAddr Arc Duration Lws Xdr Oer Option Some None Ok Err From Send Self";
/// Calls that ends have.
const CALLS: &str = "recv next_call finish connect listen is_late from into";

/// A line for each name that does not compile, with its place.
pub fn wrong(checked: &Checked, plan: &Plan) -> Vec<String> {
    let source = &checked.sources[0];
    let mut lines = Vec::new();
    let mut say = |span: Span, name: &str, why: &str| {
        let at = source.position(span.start);
        let place = format!("{}:{}:{}", source.name(), at.line, at.column);
        lines.push(format!("{place}: cannot be generated yet: `{name}`: {why}"));
    };
    let adus = &checked.specification.adus;
    let is = |list: &str, name: &str| list.split_whitespace().any(|one| one == name);
    let mut items: BTreeMap<String, String> = BTreeMap::new();
    for role in &plan.roles {
        let at = source.text().find(role.as_str()).unwrap_or(0) as u32;
        for prefix in ["", "To", "Ask"] {
            let item = format!("{prefix}{}", camel(role));
            if is(OURS, &item) || items.insert(item.clone(), role.clone()).is_some() {
                say(Span::new(at, at), role, &format!("the crate has another `{item}`"));
            }
        }
    }
    let mut calls: BTreeMap<String, &str> = BTreeMap::new();
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for (adu, of) in adus.iter().zip(&plan.adus) {
        let (item, ty) = (camel(&adu.name), adu.ty.value.as_str());
        if is(OURS, &item) || names.insert(item.clone(), &adu.name).is_some() {
            say(adu.span, &adu.name, &format!("the crate has another `{item}`"));
        }
        let call = match of.reply {
            Some(_) => snake(&adu.name),
            None => format!("send_{}", snake(&adu.name).trim_start_matches("r#")),
        };
        if call.starts_with("r#") || is(CALLS, &call) || calls.insert(call.clone(), &adu.name).is_some() {
            say(adu.span, &adu.name, &format!("its call `{call}` is another's, or a word of Rust"));
        }
        if of.reply.is_some() && of.from == Sender::Both {
            say(adu.span, &adu.name, "a call that both ends make");
        }
        let answer = format!("Answer{item}");
        if of.reply.is_some() && items.insert(answer.clone(), answer.clone()).is_some() {
            say(adu.span, &adu.name, &format!("the crate has another `{answer}`"));
        }
        let last = camel(&of.asn1.1);
        let before = items.insert(last.clone(), ty.to_owned());
        if is(OURS, &last) || before.is_some_and(|before| before != ty) {
            say(adu.ty.clause.span, ty, &format!("the crate has another `{last}`"));
        }
    }
    lines
}
