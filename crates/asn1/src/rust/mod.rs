//! Rust of modules: types, and codecs that call `fusewire_codec`.

mod ber;
mod checks;
mod components;
mod constants;
mod encoding;
mod extent;
mod finish;
mod fixed;
mod forward;
mod idents;
mod jer;
pub(crate) mod limits;
mod lines;
mod lower;
mod lws;
mod model;
mod oer;
mod place;
mod plain;
mod settle;
mod tables;
mod tags;
mod write;
mod xdr;

pub use extent::{Extent, Measured, extents};
pub use idents::{camel, snake, word};
pub use lines::Lines;

use std::collections::BTreeSet;

use crate::ast::{Assignment, AssignmentKind};
use crate::names::World;
use crate::parser::File;
use encoding::Entry;
use lower::Lower;
use model::Model;
use write::Writer;

/// A transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// The basic encoding rules (X.690).
    Ber,
    /// The distinguished encoding rules (X.690).
    Der,
    /// The octet encoding rules, and the canonical ones (X.696).
    Oer,
    /// External data representation (RFC 4506), as `docs/xdr.md` maps it.
    Xdr,
    /// Fusewire's light-weight syntax with words of 16, 32 or 64 bits: one codec serves all of them.
    Lws,
    /// The JSON encoding rules, without encoding instructions (X.697).
    Jer,
}

/// The encodings: for one more there is a variant above, an entry here, and the file that has the entry and writes its
/// code.
const ENCODINGS: [&Entry; 6] = [&ber::BER, &ber::DER, &oer::OER, &xdr::XDR, &lws::LWS, &jer::JER];

impl Encoding {
    /// All that there are.
    pub fn all() -> Vec<Encoding> {
        ENCODINGS.iter().map(|entry| entry.encoding).collect()
    }

    /// What they are called on a command line.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ENCODINGS.iter().flat_map(|entry| entry.names).copied()
    }

    /// By its name on a command line.
    pub fn from_name(name: &str) -> Option<Encoding> {
        ENCODINGS.iter().find(|entry| entry.names.contains(&name)).map(|entry| entry.encoding)
    }
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Codecs for these.
    pub encodings: Vec<Encoding>,
    /// For crates without `std`: what allocates comes from `alloc`.
    pub no_std: bool,
    /// An INTEGER without bounds has 64 bits, not any width, and decoding refuses wider numbers.
    pub narrow_integers: bool,
    /// Types that are messages by themselves though others are made of them, as `Module.Type`, or `Type` of any
    /// module: one that is a Rust type with constraints gets a struct around that, which asks for them.
    pub messages: Vec<String>,
}

impl Options {
    /// The first of [`Options::messages`] that no module has.
    pub fn unknown_message<'o>(&'o self, files: &[File]) -> Option<&'o str> {
        let modules = || files.iter().flat_map(|f| &f.modules);
        let is_known = |name: &&String| {
            modules().any(|module| {
                let of_module = |a: &&Assignment| {
                    // Nothing is generated for what has parameters.
                    a.parameters.is_empty()
                        && matches!(a.kind, AssignmentKind::Type(_) | AssignmentKind::Set(..))
                        && is_called(name, &module.name.text, &a.name.text)
                };
                module.assignments.iter().any(|a| of_module(&a))
            })
        };
        self.messages.iter().find(|name| !is_known(name)).map(String::as_str)
    }
}

/// Whether a type is meant by `Module.Type` or `Type`.
fn is_called(name: &str, module: &str, ty: &str) -> bool {
    match name.rsplit_once('.') {
        Some((of, name)) => of == module && name == ty,
        None => name == ty,
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            encodings: vec![Encoding::Ber, Encoding::Der],
            no_std: false,
            narrow_integers: false,
            messages: Vec::new(),
        }
    }
}

/// A module in Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The name of the Rust module.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The types in it.
    pub types: Vec<Type>,
}

/// A type of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// What it is called in the notation.
    pub asn: String,
    /// In Rust.
    pub rust: String,
    /// It has a lifetime: that of what it was read from.
    pub borrows: bool,
}

/// Rust of files, one module for each of theirs. What is wrong with them is for [`crate::diagnose`] to say:
/// what could not be read or found becomes an open type.
pub fn generate<'a>(
    files: impl IntoIterator<Item = &'a File>,
    options: &Options,
) -> Vec<Generated> {
    let world = World::new(files);
    let mut model = Lower::run(&world, options.narrow_integers);
    model.finish(&options.messages);
    let written = (0..model.modules.len()).map(|module| module_text(&model, module, options));
    written.flatten().collect()
}

/// A module's text; nothing where it has neither types nor values.
fn module_text(model: &Model, module: usize, options: &Options) -> Option<Generated> {
    let mut writer = Writer::new(model, module);
    let mut encodings = ENCODINGS.to_vec();
    encodings.retain(|entry| options.encodings.contains(&entry.encoding));
    encodings.dedup_by_key(|entry| entry.module);
    for id in (0..model.defs.len()).filter(|&id| model.defs[id].module == module) {
        writer.definition(id);
        if encodings.iter().any(|entry| entry.is_in_place) {
            writer.blank(id);
        }
        encodings.iter().for_each(|entry| (entry.emit)(&mut writer, id));
        writer.tables(id, &encodings);
    }
    writer.constants();
    let body = writer.out.into_text();
    let built_in = model.modules[module].asn == "BuiltIn";
    if body.is_empty() && built_in {
        return None;
    }
    let asn = &model.modules[module].asn;
    let mut text = format!("//! `{asn}`, generated by Fusewire's ASN.1 compiler.\n\n");
    if options.no_std {
        let boxed = if body.contains("Box<") { "boxed::Box" } else { "" };
        let vec = if body.contains("Vec<") || body.contains("Vec::") { "vec::Vec" } else { "" };
        let used: Vec<_> = [boxed, vec].into_iter().filter(|u| !u.is_empty()).collect();
        if !used.is_empty() {
            text += &format!("extern crate alloc;\n\nuse alloc::{{{}}};\n\n", used.join(", "));
        }
    }
    // Modules of the codec, in order.
    let mut used: BTreeSet<_> = encodings.iter().map(|entry| entry.module).collect();
    used.insert("types");
    let used = used.into_iter().filter(|module| mentions(&body, module));
    let itself = mentions(&body, "codec").then_some("self as codec");
    let used: Vec<_> = itself.into_iter().chain(used).collect();
    if !used.is_empty() {
        text += &format!("use fusewire_codec::{{{}}};\n", used.join(", "));
    }
    text += &body;
    let types = model.defs.iter().filter(|def| def.module == module).map(|def| Type {
        asn: def.asn.clone(),
        rust: def.rust.clone(),
        borrows: def.borrows,
    });
    let types = types.collect();
    Some(Generated { name: model.modules[module].rust.clone(), text, types })
}

/// Whether a text has `module::` that is not behind another path.
fn mentions(text: &str, module: &str) -> bool {
    let path = format!("{module}::");
    text.match_indices(&path).any(|(at, _)| {
        !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    })
}

/// Modules as one text, for a file that a build script writes: each is a module within it.
pub fn joined(modules: &[Generated]) -> String {
    let mut out = String::new();
    for module in modules {
        out += &format!("pub mod {} {{\n{}}}\n\n", module.name, module.text);
    }
    out
}
