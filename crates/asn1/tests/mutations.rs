//! Modules made invalid by one small change are rejected where they were changed: a keyword dropped, a
//! reference misspelled, a tag doubled, a brace lost.
//!
//! Published modules are taken from `shared/data/asn1/modules` beside the repository where they are there;
//! `FUSEWIRE_MUTATIONS` says how many changes, `FUSEWIRE_SEED` from which seed.

mod data;

use std::collections::{BTreeMap, HashMap, HashSet};

use fusewire_asn1::ast::{Assignment, AssignmentKind, Item, Type, TypeKind, ValueKind};
use fusewire_asn1::lexer::{Token, TokenKind};
use fusewire_asn1::{File, Source, Span, diagnose};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// A change: what is replaced, and by what.
struct Change {
    span: Span,
    by: String,
}

const KEYWORDS: &[&str] = &[
    "DEFINITIONS",
    "BEGIN",
    "END",
    "FROM",
    "SEQUENCE",
    "SET",
    "CHOICE",
    "OF",
    "INTEGER",
    "BOOLEAN",
    "STRING",
    "IDENTIFIER",
    "OBJECT",
    "OCTET",
    "BIT",
    "TAGS",
    "COMPONENTS",
    "BY",
    "ENUMERATED",
    "NULL",
    "CLASS",
    "SYNTAX",
    "DEFAULT",
    "IMPORTS",
    "DEFINED",
    "WITH",
];

/// Words that are found outside of exchanges in object syntax, where a class may have made them its own.
fn keyword(file: &File, tokens: &[Token], random: &mut Random) -> Option<Change> {
    let places: Vec<&Token> = tokens
        .iter()
        .filter(|t| t.kind == TokenKind::Upper && KEYWORDS.contains(&file.source.slice(t.span)))
        .collect();
    let token = places.get(random.below(places.len()))?;
    Some(Change { span: token.span, by: String::new() })
}

fn brace(file: &File, tokens: &[Token], random: &mut Random) -> Option<Change> {
    let is_brace = |t: &&Token| matches!(t.kind, TokenKind::Sign(b'{' | b'}'));
    let places: Vec<&Token> = tokens.iter().filter(is_brace).collect();
    let token = places.get(random.below(places.len()))?;
    let _ = file;
    Some(Change { span: token.span, by: String::new() })
}

/// A use of a name that the module defines or imports, with a letter more or less or another one.
fn reference(file: &File, tokens: &[Token], random: &mut Random) -> Option<Change> {
    let module = &file.modules[0];
    let mut names: HashSet<&str> = HashSet::new();
    let mut places = HashSet::new();
    for assignment in &module.assignments {
        names.insert(&assignment.name.text);
        places.insert(assignment.name.span);
    }
    names.extend(module.imports.iter().flat_map(|i| i.symbols.iter().map(|s| s.text.as_str())));
    let imports_end = module.imports.last().map_or(0, |i| i.module.span.end);
    let mut types = Vec::new();
    module.assignments.iter().for_each(|a| references(a, &mut types));
    let places: Vec<Span> = types
        .into_iter()
        .filter(|s| names.contains(file.source.slice(*s)) && s.start > imports_end)
        .collect();
    let _ = tokens;
    let span = *places.get(random.below(places.len()))?;
    let mut text: Vec<char> = file.source.slice(span).chars().collect();
    let at = 1 + random.below(text.len().saturating_sub(1));
    match random.below(3) {
        0 if text.len() > 3 && at < text.len() && text[at] != '-' && text[at - 1] != '-' => {
            text.remove(at);
        }
        1 => text.insert(at.min(text.len()), 'q'),
        _ if at < text.len() && text[at] != '-' => {
            text[at] = if text[at] == 'z' { 'y' } else { 'z' }
        }
        _ => text.push('x'),
    }
    let by: String = text.into_iter().collect();
    (!names.contains(by.as_str()) && !by.ends_with('-')).then_some(Change { span, by })
}

/// Types and values that are named in types.
fn references(assignment: &Assignment, places: &mut Vec<Span>) {
    let (AssignmentKind::Type(ty) | AssignmentKind::Value(ty, _)) = &assignment.kind else {
        return;
    };
    let parameters: HashSet<&str> =
        assignment.parameters.iter().map(|p| p.name.text.as_str()).collect();
    let mut found = Vec::new();
    in_type(ty, &mut found);
    if let AssignmentKind::Value(_, value) = &assignment.kind
        && let ValueKind::Reference(reference) = &value.kind
    {
        found.push((reference.name.text.clone(), reference.name.span));
    }
    places.extend(
        found.into_iter().filter(|(n, _)| !parameters.contains(n.as_str())).map(|(_, s)| s),
    );
}

fn in_type(ty: &Type, found: &mut Vec<(String, Span)>) {
    match &ty.kind {
        TypeKind::Reference(r) if r.module.is_none() => {
            found.push((r.name.text.clone(), r.name.span))
        }
        TypeKind::Sequence(items) | TypeKind::Set(items) | TypeKind::Choice(items) => {
            in_items(items, found)
        }
        TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element) => in_type(element, found),
        _ => {}
    }
}

fn in_items(items: &[Item], found: &mut Vec<(String, Span)>) {
    for item in items {
        match item {
            Item::Component(c) => in_type(&c.ty, found),
            Item::ComponentsOf(ty) => in_type(ty, found),
            Item::Group(_, items) => in_items(items, found),
            Item::Extension(_) => {}
        }
    }
}

/// In a SET or CHOICE one component's tag is made another's.
fn tag(file: &File, _: &[Token], random: &mut Random) -> Option<Change> {
    let mut pairs = Vec::new();
    for assignment in &file.modules[0].assignments {
        if let AssignmentKind::Type(ty) = &assignment.kind {
            tags_in(ty, &mut pairs);
        }
    }
    let (from, to) = *pairs.get(random.below(pairs.len()))?;
    Some(Change { span: to, by: file.source.slice(from).to_owned() })
}

fn tags_in(ty: &Type, pairs: &mut Vec<(Span, Span)>) {
    match &ty.kind {
        TypeKind::Set(items) | TypeKind::Choice(items) => {
            let tags: Vec<_> = items
                .iter()
                .filter_map(|i| if let Item::Component(c) = i { c.ty.tags.first() } else { None })
                .collect();
            let same = tags.windows(2).filter(|w| w[0].class == w[1].class);
            pairs.extend(same.map(|w| (w[0].number.span, w[1].number.span)));
            components(items, pairs);
        }
        TypeKind::Sequence(items) => components(items, pairs),
        TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element) => tags_in(element, pairs),
        _ => {}
    }
}

fn components(items: &[Item], pairs: &mut Vec<(Span, Span)>) {
    for item in items {
        match item {
            Item::Component(c) => tags_in(&c.ty, pairs),
            Item::Group(_, items) => components(items, pairs),
            _ => {}
        }
    }
}

/// The other files that a module needs, by the names of modules.
fn needed<'f>(
    file: &File,
    files: &'f [File],
    by_name: &HashMap<&str, Vec<usize>>,
) -> Vec<&'f File> {
    let mut seen = HashSet::from([file.id]);
    let mut order = Vec::new();
    let mut open: Vec<&File> = vec![file];
    while let Some(next) = open.pop() {
        let imports = next.modules.iter().flat_map(|m| &m.imports);
        for id in imports.flat_map(|i| by_name.get(i.module.text.as_str())).flatten() {
            if order.len() < 60 && seen.insert(*id) {
                order.push(&files[*id]);
                open.push(&files[*id]);
            }
        }
    }
    order
}

type Mutate = fn(&File, &[Token], &mut Random) -> Option<Change>;

#[test]
fn changed_modules_are_rejected_in_the_right_line() {
    let texts = data::modules();
    let count = data::number("FUSEWIRE_MUTATIONS", 100);
    let mut random = Random(data::number("FUSEWIRE_SEED", 1) as u64);
    let files: Vec<File> = texts
        .iter()
        .enumerate()
        .map(|(id, (n, b))| File::parse(id, Source::new(n.clone(), b)))
        .collect();
    let wrong: HashSet<usize> =
        diagnose(&files).iter().filter(|d| d.is_error()).map(|d| d.file).collect();
    let valid: Vec<&File> =
        files.iter().filter(|f| f.modules.len() == 1 && !wrong.contains(&f.id)).collect();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for file in &files {
        for module in &file.modules {
            by_name.entry(&module.name.text).or_default().push(file.id);
        }
    }
    let kinds: [(&str, Mutate); 4] =
        [("keyword", keyword), ("reference", reference), ("tag", tag), ("brace", brace)];
    let mut scores: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut done = 0;
    while done < count {
        let (name, mutate) = kinds[done % kinds.len()];
        let file = valid[random.below(valid.len())];
        let tokens: Vec<Token> =
            file.tree.tokens().iter().filter(|t| !t.kind.is_trivia()).copied().collect();
        let Some(change) = mutate(file, &tokens, &mut random) else { continue };
        let text = file.source.text();
        let (start, end) = (change.span.start as usize, change.span.end as usize);
        let changed = format!("{}{}{}", &text[..start], change.by, &text[end..]);
        let changed = File::parse(file.id, Source::new(file.source.name(), changed.as_bytes()));
        let mut world = vec![&changed];
        world.extend(needed(file, &files, &by_name));
        // The change may show from where the token before it ends to where the one behind it begins.
        let before = tokens.iter().rfind(|t| t.span.end <= change.span.start);
        let after = tokens.iter().find(|t| t.span.start >= change.span.end);
        let line = |at: u32| file.source.line_index(at);
        let first = before.map_or(0, |t| line(t.span.end - 1));
        let last = after.map_or(usize::MAX, |t| line(t.span.start));
        let found = diagnose(world.iter().copied());
        let lines: Vec<usize> = found
            .iter()
            .filter(|d| d.is_error() && d.file == file.id)
            .map(|d| changed.source.line_index(d.span.start))
            .collect();
        let score = scores.entry(name).or_default();
        score[0] += 1;
        score[1] += usize::from(!lines.is_empty());
        let right = lines.iter().any(|l| (first..=last).contains(l));
        score[2] += usize::from(right);
        if !right && std::env::var_os("FUSEWIRE_VERBOSE").is_some() {
            let place = line(change.span.start);
            println!(
                "{name}: {}:{} `{}` -> `{}`: {:?}\n    {}",
                file.source.name(),
                place + 1,
                file.source.slice(change.span),
                change.by,
                lines.iter().take(3).map(|l| l + 1).collect::<Vec<_>>(),
                file.source.line(place)
            );
        }
        done += 1;
    }
    println!("changes, rejected, in the right line: {scores:?}");
    let right: usize = scores.values().map(|s| s[2]).sum();
    assert!(right * 100 >= count * 95, "{right} of {count} in the right line: {scores:?}");
}
