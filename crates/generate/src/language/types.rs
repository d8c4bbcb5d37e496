//! The types of ADUs in ASN.1: whether they are there, what they take, and which nobody carries.

use fusewire_asn1::ast::{AssignmentKind, Item, TypeKind};
use fusewire_asn1::names::nearest;
use fusewire_asn1::rust::{Measured, Options, extents};
use fusewire_asn1::{Diagnostic, File, Span, diagnose};

use super::Absent;
use super::reader::Reader;
use super::specification::{CODECS, Specification};

/// What is asked of ASN.1 beside [`Options`]' own: codecs of integers are those that a program computes with.
pub fn options(specification: &Specification) -> Options {
    let messages = specification.adus.iter().map(|adu| adu.ty.value.clone()).collect();
    Options { narrow_integers: true, messages, ..Options::default() }
}

/// Files of ASN.1, numbered from 1.
pub struct Files<'f> {
    /// Those that there are.
    pub parsed: &'f [File],
    /// They are all that the specification names.
    pub is_whole: bool,
}

/// Says that a file that is named, or that has the name of a type's module, cannot be read.
pub fn absent(
    reader: &mut Reader<'_>,
    specification: &Specification,
    span: Option<&Span>,
    absent: &Absent,
) {
    let module = absent.name.strip_suffix(".asn1").unwrap_or(&absent.name);
    let mut types = specification.adus.iter().map(|adu| &adu.ty);
    let named = types.find(|ty| ty.value.split_once('.').is_some_and(|(of, _)| of == module));
    let span = span.copied().or(named.map(|ty| ty.clause.span)).unwrap_or(Span::new(0, 0));
    let help = match nearest(&absent.name, absent.beside.iter().map(String::as_str)) {
        Some(meant) => format!("is `{meant}` meant?"),
        None => "a file of ASN.1 lies beside the specification; `asn1` names those that are not called as their module".to_owned(),
    };
    let shown = fusewire_asn1::diagnostic::shortened(&absent.name);
    reader.error(span, format!("`{shown}` cannot be read: {}", absent.why), help);
}

/// Looks at the types.
pub fn check(
    reader: &mut Reader<'_>,
    specification: &mut Specification,
    spans: &[Span],
    Files { parsed: files, is_whole }: Files<'_>,
) {
    let wrong = diagnose(files);
    let is_readable = !wrong.iter().any(Diagnostic::is_error);
    reader.diagnostics.extend(wrong);
    let names = Names::of(files, is_whole);
    let mut is_there = true;
    for adu in specification.adus.iter().filter(|adu| !adu.ty.value.is_empty()) {
        is_there &= names.find(reader, &adu.ty.value, adu.ty.clause.span);
    }
    for adu in &specification.adus {
        if let (Some(key), true) = (&adu.newest.value, is_there) {
            keyed(reader, files, &adu.ty.value, (key, adu.newest.clause.span));
        }
    }
    specification.modules = files.iter().map(hashed).collect();
    if !(is_readable && is_there && is_whole) {
        return;
    }
    let options = options(specification);
    let measured = CODECS.map(|(_, encoding)| extents(files, encoding, &options));
    for adu in &mut specification.adus {
        for (all, extent) in measured.iter().zip(&mut adu.extents) {
            let found = all.iter().find(|of| is_called(of, &adu.ty.value));
            *extent = found.map_or_else(Default::default, |of| of.extent);
        }
    }
    unused(reader, specification, spans, files, &measured[0]);
}

/// Whether a type is a SEQUENCE with a component of this name; says so if it is not.
fn keyed(reader: &mut Reader<'_>, files: &[File], ty: &str, (key, span): (&str, Span)) {
    let Some((module, name)) = ty.split_once('.') else { return };
    let modules = files.iter().flat_map(|file| &file.modules);
    let mut all = modules.filter(|of| of.name.text == module).flat_map(|of| &of.assignments);
    let found = all.find(|of| of.name.text == name);
    let components: Vec<&str> = match found.map(|of| &of.kind) {
        Some(AssignmentKind::Type(of)) => match &of.kind {
            TypeKind::Sequence(items) | TypeKind::Set(items) => items
                .iter()
                .filter_map(|item| {
                    let Item::Component(component) = item else { return None };
                    Some(component.name.as_ref()?.text.as_str())
                })
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if components.contains(&key) {
        return;
    }
    let help = match nearest(key, components.iter().copied()) {
        Some(meant) => format!("is \"{meant}\" meant?"),
        None if components.is_empty() => {
            "expected the name of a component of a SEQUENCE".to_owned()
        }
        None => format!("expected one of {}", components.join(", ")),
    };
    let shown = fusewire_asn1::diagnostic::shortened(key);
    reader.error(span, format!("`{ty}` has no component `{shown}`"), help);
}

fn is_called(of: &Measured, name: &str) -> bool {
    name.split_once('.').is_some_and(|(module, ty)| of.module == module && of.name == ty)
}

/// Modules and the types in them.
struct Names<'f> {
    /// There are no others.
    is_whole: bool,
    modules: Vec<(&'f str, Vec<&'f str>)>,
}

impl<'f> Names<'f> {
    fn of(files: &'f [File], is_whole: bool) -> Names<'f> {
        let modules = files.iter().flat_map(|file| &file.modules).map(|module| {
            let types = module
                .assignments
                .iter()
                .filter(|a| a.parameters.is_empty() && matches!(a.kind, AssignmentKind::Type(_)));
            (module.name.text.as_str(), types.map(|a| a.name.text.as_str()).collect())
        });
        Names { is_whole, modules: modules.collect() }
    }

    /// Whether a type is there; says so if it is not.
    fn find(&self, reader: &mut Reader<'_>, name: &str, span: Span) -> bool {
        let Some((module, ty)) = name.split_once('.') else { return false };
        let Some((_, types)) = self.modules.iter().find(|(name, _)| *name == module) else {
            if !self.is_whole {
                return false;
            }
            let help = match nearest(module, self.modules.iter().map(|(name, _)| *name)) {
                Some(meant) => format!("is `{meant}` meant?"),
                None => format!("name the file of module `{module}` in `asn1`"),
            };
            reader.error(span, format!("no file has a module `{module}`"), help);
            return false;
        };
        if types.contains(&ty) {
            return true;
        }
        let help = match nearest(ty, types.iter().copied()) {
            Some(meant) => format!("is `{module}.{meant}` meant?"),
            None => format!("define it in `{module}`"),
        };
        reader.error(span, format!("module `{module}` has no type `{ty}`"), help);
        false
    }
}

/// Types that no ADU carries, and files that have none of them.
fn unused(
    reader: &mut Reader<'_>,
    specification: &Specification,
    spans: &[Span],
    files: &[File],
    measured: &[Measured],
) {
    let carried: Vec<_> = specification.adus.iter().map(|adu| adu.ty.value.as_str()).collect();
    let is_carried = |module: &str| {
        carried.iter().any(|name| name.split_once('.').is_some_and(|(of, _)| of == module))
    };
    let imported = |module: &str| {
        let all = files.iter().flat_map(|file| &file.modules).flat_map(|m| &m.imports);
        all.into_iter().any(|import| import.module.text == module)
    };
    for (place, file) in files.iter().enumerate() {
        let mut modules = file.modules.iter().map(|module| module.name.text.as_str());
        let is_used = modules.any(|module| is_carried(module) || imported(module));
        if let (false, Some(&span)) = (is_used, spans.get(place)) {
            reader.error(span, "no ADU's type comes from this file", "leave it out");
        }
        for module in file.modules.iter().filter(|module| is_carried(&module.name.text)) {
            for assignment in &module.assignments {
                let name = format!("{}.{}", module.name.text, assignment.name.text);
                let alone = measured.iter().find(|of| is_called(of, &name) && !of.is_part);
                if alone.is_none()
                    || carried.contains(&name.as_str())
                    || imported(&module.name.text)
                {
                    continue;
                }
                let message = format!("no ADU carries `{name}`");
                // Other programs may use the same module.
                let warning = Diagnostic::warning(file.id, assignment.name.span, message);
                let help = "carry it by a type of ADU, or remove it if no other specification uses the module";
                reader.diagnostics.push(warning.about(&assignment.name.text).help(help));
            }
        }
    }
}

/// A file's first module, and the hash of all that it says: comments and white space aside.
fn hashed(file: &File) -> (String, String) {
    let name = file.modules.first().map_or(String::new(), |module| module.name.text.clone());
    let mut hash = blake3::Hasher::new();
    for token in file.tree.tokens().iter().filter(|token| !token.kind.is_trivia()) {
        hash.update(file.source.slice(token.span).as_bytes());
        hash.update(b" ");
    }
    (name, hash.finalize().to_hex().as_str()[..32].to_owned())
}
