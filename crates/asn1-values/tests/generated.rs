//! Random modules: what the compiler generates from them and the interpreter of their types read and write the same
//! bytes, in every encoding, and what the interpreter refuses the generated code refuses.
//!
//! `FUSEWIRE_MODULES` says how many modules, `FUSEWIRE_SEED` from which seed, `FUSEWIRE_VALUES` how many values of each
//! type.

mod made;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fusewire_asn1::names::World;
use fusewire_asn1::rust::{Encoding, Generated, Options, generate};
use fusewire_asn1::{Checked, File, Source, check};
use fusewire_asn1_values::schema::TypeId;
use fusewire_asn1_values::{
    Encoding as Coding, Error, Limits, Problem, Schema, Syntax, Value, jer,
};
use fusewire_codec::ber::Rules;
use made::{Dice, a_value};

/// The encodings, by the names that the generated program knows. What BER reads is written in DER, so that the forms
/// that are free do not matter.
const SYNTAXES: [&str; 9] = ["ber", "der", "oer", "coer", "xdr", "lws2", "lws4", "lws8", "jer"];

/// Types are nested in each other so deep.
const DEPTH: u32 = 3;

/// What stands in front of `main` in the generated program: a type's encoding is read and written again.
const PROGRAM: &str = r#"
use fusewire_codec::{Error, ber, jer, lws, oer, xdr};
use std::io::{BufRead, Write};

fn again<'a, T>(syntax: &str, bytes: &'a [u8]) -> Result<Vec<u8>, Error>
where
    T: ber::Encode + ber::Decode<'a> + oer::Encode + oer::Decode<'a> + xdr::Encode + xdr::Decode<'a>
        + lws::Encode + lws::Decode<'a> + jer::Encode + jer::Decode<'a>,
{
    match syntax {
        "ber" => ber::to_vec(&ber::from_bytes::<T>(bytes, ber::Rules::Ber)?, ber::Rules::Der),
        "der" => ber::to_vec(&ber::from_bytes::<T>(bytes, ber::Rules::Der)?, ber::Rules::Der),
        "oer" => oer::to_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Oer)?),
        "coer" => oer::to_canonical_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Coer)?),
        "xdr" => xdr::to_vec(&xdr::from_bytes::<T>(bytes)?),
        "lws2" => lws::to_vec::<u16, _>(&lws::from_bytes::<u16, T>(bytes)?),
        "lws4" => lws::to_vec::<u32, _>(&lws::from_bytes::<u32, T>(bytes)?),
        "lws8" => lws::to_vec::<u64, _>(&lws::from_bytes::<u64, T>(bytes)?),
        "jer" => jer::to_vec(&jer::from_bytes::<T>(bytes)?),
        _ => unreachable!(),
    }
}

fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (ty, syntax, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let digits = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
        match one(ty, syntax, &bytes) {
            Ok(bytes) => {
                out.write_all(b"=").unwrap();
                for byte in bytes {
                    write!(out, "{byte:02x}").unwrap();
                }
                out.write_all(b"\n").unwrap();
            }
            Err(error) => writeln!(out, "! {error}").unwrap(),
        }
    }
}
"#;

/// Decisions of a seed (SplitMix64).
fn decisions(seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| next()).collect()
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise)
}

/// A module's notation as it comes about.
struct Making<'d, 'a> {
    dice: &'d mut Dice<'a>,
    /// How many types are defined already: any type may be made of these.
    defined: u64,
    /// How many there will be: where a type may be missing it may be one of these.
    all: u64,
    is_automatic: bool,
}

impl Making<'_, '_> {
    fn leaf(&mut self) -> String {
        const LEAVES: [&str; 48] = [
            "INTEGER (1..3 | 7 | 20..30)",
            "INTEGER (ALL EXCEPT 0)",
            "INTEGER { few(3) } (few | 9..MAX)",
            "INTEGER ((0..9 | 40) ^ (3..40))",
            "OCTET STRING (SIZE (1 | 4..5))",
            "BIT STRING (SIZE (2 | 9))",
            "IA5String (FROM (\"a\"..\"e\" | \"x\"))",
            "VisibleString (SIZE (2 | 4)) (FROM (ALL EXCEPT (\"b\" | \"c\")))",
            "UTF8String (SIZE (0..2 | 5)) (FROM (\"a\"<..<\"y\"))",
            "BMPString (FROM (\"k\"..MAX))",
            "BOOLEAN",
            "NULL",
            "INTEGER",
            "INTEGER (0..255)",
            "INTEGER (-5..70000)",
            "INTEGER (0..MAX)",
            "INTEGER (MIN..7)",
            "INTEGER (1..9)",
            "INTEGER (-128..127, ...)",
            "INTEGER { one(1), two(2) }",
            "INTEGER (0..18446744073709551615)",
            "INTEGER (-9223372036854775808..9223372036854775807)",
            "ENUMERATED { a, b(300), c, ..., d }",
            "ENUMERATED { minus(-3), nought(0), many(70000) }",
            "REAL",
            "BIT STRING",
            "BIT STRING (SIZE (11))",
            "BIT STRING (SIZE (3..12))",
            "BIT STRING { x(0), y(9) }",
            "OCTET STRING",
            "OCTET STRING (SIZE (3))",
            "OCTET STRING (SIZE (1..5))",
            "OCTET STRING (SIZE (2, ...))",
            "OBJECT IDENTIFIER",
            "RELATIVE-OID",
            "UTF8String",
            "PrintableString",
            "PrintableString (FROM (\"a\"..\"z\"))",
            "IA5String (SIZE (2))",
            "IA5String (SIZE (1..4)) (FROM (\"a\"..\"z\"))",
            "VisibleString (SIZE (0..3))",
            "BMPString",
            "UniversalString (SIZE (2))",
            "UTCTime",
            "GeneralizedTime",
            "DATE",
            "TIME-OF-DAY",
            "DATE-TIME",
        ];
        let leaf = |dice: &mut Dice<'_>| LEAVES[dice.roll(LEAVES.len() as u64) as usize];
        match self.dice.roll(10) {
            8 => format!("P {{ {} }}", leaf(self.dice)),
            6 | 7 | 9 if self.defined > 0 => format!("T{}", self.dice.roll(self.defined)),
            _ => leaf(self.dice).to_owned(),
        }
    }

    fn list(&mut self, depth: u32) -> String {
        let of = ["SEQUENCE", "SET"][self.dice.roll(2) as usize];
        let size = ["", "", " SIZE (2)", " SIZE (0..3)", " (SIZE (1..4))", " SIZE (1 | 3)"];
        let size = size[self.dice.roll(size.len() as u64) as usize];
        // What may be empty may be of the type that it is a part of.
        if !size.contains('2') && !size.contains('1') && self.dice.roll(4) == 0 {
            return format!("{of}{size} OF T{}", self.dice.roll(self.all));
        }
        format!("{of}{size} OF {}", self.ty(depth - 1))
    }

    fn ty(&mut self, depth: u32) -> String {
        match self.dice.roll(if depth == 0 { 1 } else { 3 }) {
            0 => self.leaf(),
            1 => self.list(depth),
            _ => self.structure(depth),
        }
    }

    fn structure(&mut self, depth: u32) -> String {
        let of = ["SEQUENCE", "SET", "CHOICE"][self.dice.roll(3) as usize];
        let is_choice = of == "CHOICE";
        let mut parts: Vec<String> = Vec::new();
        let marker = self.dice.roll(6);
        for n in 0..1 + self.dice.roll(5) {
            if n == marker {
                parts.push("...".to_owned());
            }
            let is_optional = !is_choice && self.dice.roll(3) == 0;
            let may_be_itself = is_optional || is_choice && n > 0;
            let ty = match may_be_itself && self.dice.roll(5) == 0 {
                true => format!("T{}", self.dice.roll(self.all)),
                false => self.ty(depth - 1),
            };
            let tag = match (self.is_automatic, self.dice.roll(4)) {
                (true, _) => String::new(),
                (false, 0) => format!("[{}] EXPLICIT ", 40 - n),
                (false, _) => format!("[{n}] "),
            };
            if is_choice && !self.is_automatic && self.dice.roll(4) == 0 {
                // Without tags of their own.
                let (a, b, c) = (self.leaf(), self.leaf(), self.leaf());
                let (first, more) = (100 * (n + 1), ["", ", ..."][self.dice.roll(2) as usize]);
                let inner = format!("CHOICE {{ b [{}] {b}, c [{}] {c} }}", first + 1, first + 2);
                parts.push(format!("c{n} CHOICE {{ a [{first}] {a}, more {inner}{more} }}"));
                continue;
            }
            let optional = if is_optional { " OPTIONAL" } else { "" };
            let part = format!("c{n} {tag}{ty}{optional}");
            let is_grouped = n > marker && !is_choice && self.dice.roll(3) == 0;
            parts.push(if is_grouped { format!("[[ {part} ]]") } else { part });
        }
        if !is_choice && marker > 3 {
            let tag = if self.is_automatic { "" } else { "[50] " };
            let default = [
                "INTEGER DEFAULT 7",
                "BOOLEAN DEFAULT TRUE",
                "IA5String DEFAULT \"ab\"",
                "DATE DEFAULT \"2024-02-29\"",
                "GeneralizedTime DEFAULT \"20240229235958Z\"",
            ];
            let default = default[self.dice.roll(default.len() as u64) as usize];
            parts.push(format!("last {tag}{default}"));
        }
        format!("{of} {{ {} }}", parts.join(", "))
    }
}

/// A module of a few types.
fn a_module(name: &str, dice: &mut Dice<'_>) -> String {
    let tags = ["AUTOMATIC TAGS", "IMPLICIT TAGS", "EXPLICIT TAGS"][dice.roll(3) as usize];
    let all = 1 + dice.roll(4);
    let mut making = Making { dice, defined: 0, all, is_automatic: tags.starts_with('A') };
    let mut text = format!("{name} DEFINITIONS {tags} ::= BEGIN\n");
    text += match making.is_automatic {
        true => "P { V } ::= SEQUENCE { v V, w V OPTIONAL }\n",
        false => "P { V } ::= SEQUENCE { v [0] V, w [7] V OPTIONAL }\n",
    };
    for n in 0..all {
        making.defined = n;
        let tag = match making.dice.roll(5) {
            0 => format!("[APPLICATION {n}] "),
            1 => format!("[PRIVATE {n}] EXPLICIT "),
            _ => String::new(),
        };
        let ty = if n == 0 { making.structure(DEPTH) } else { making.ty(DEPTH) };
        writeln!(text, "T{n} ::= {tag}{ty}").expect("text");
    }
    text + "END\n"
}

/// Builds the program of all modules.
fn built(modules: &[Generated], types: &[String]) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    let source = folder.join("src");
    let _ = std::fs::remove_dir_all(&source);
    std::fs::create_dir_all(&source).expect("a folder");
    let codec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codec");
    let manifest = format!(
        "[package]\nname = \"generated\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nfusewire-codec = {{ path = {codec:?} }}\n\n[profile.dev]\ndebug = false\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).expect("the lock file");
    let mut root = String::from("#![deny(warnings)]\n");
    for module in modules {
        writeln!(root, "pub mod {};", module.name).expect("text");
        std::fs::write(source.join(format!("{}.rs", module.name)), &module.text).expect("a file");
    }
    root += PROGRAM;
    root += "\nfn one(ty: &str, syntax: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {\n    match ty {\n";
    for ty in types {
        let path = ty.to_lowercase().replace(".t", "::T");
        writeln!(root, "        {ty:?} => again::<{path}>(syntax, bytes),").expect("text");
    }
    root += "        _ => unreachable!(),\n    }\n}\n";
    std::fs::write(source.join("main.rs"), root).expect("a file");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("target");
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", told.chars().take(6000).collect::<String>());
    target.join("debug/generated")
}

/// Whether a type is another name in Rust, of which only where it is used the encoding is known.
fn is_alias(modules: &[Generated], name: &str) -> bool {
    let (module, ty) = name.split_once('.').expect("a module and a type");
    let module = modules.iter().find(|m| m.name == module.to_lowercase()).expect("a module");
    [" ", "<"].iter().any(|end| module.text.contains(&format!("pub type {ty}{end}")))
}

/// What the program says of each line.
fn answers(program: &Path, lines: &str) -> Vec<String> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut input = child.stdin.take().expect("a pipe");
    let lines = lines.to_owned();
    let feeder = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("an answer");
    assert!(output.status.success());
    feeder.join().expect("no panic").expect("all was read");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        write!(text, "{b:02x}").expect("text");
        text
    })
}

fn syntax_of(name: &str) -> Syntax {
    match name {
        "oer" => Syntax::Oer,
        "coer" => Syntax::Coer,
        "xdr" => Syntax::Xdr,
        "lws2" => Syntax::Lws(2),
        "lws4" => Syntax::Lws(4),
        _ => Syntax::Lws(8),
    }
}

fn encode(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    value: &Value,
    name: &str,
) -> Result<Vec<u8>, Error> {
    match name {
        "ber" => Coding::Tagged(Rules::Ber).encode(schema, ty, value),
        "der" => Coding::Tagged(Rules::Der).encode(schema, ty, value),
        "jer" => Ok(jer::to_json(schema, value, ty).into_bytes()),
        _ => Coding::Forward(syntax_of(name)).encode(schema, ty, value),
    }
}

fn is_too_deep(error: &Error) -> bool {
    let Problem::Codec(problem) = &error.problem else { return false };
    matches!(**problem, fusewire_codec::Problem::TooDeep { .. })
}

/// Whether a value keeps what generated code does not: extensions that its type does not know, and digits of a REAL
/// that a number of the machine has not.
fn keeps_more(value: &Value) -> bool {
    match value {
        Value::Real(real) => real.contents.is_some(),
        Value::Structure(of) => {
            !of.unknown.is_empty() || of.members.iter().flatten().any(keeps_more)
        }
        Value::List(elements) => elements.iter().any(keeps_more),
        Value::Choice(_, inner) => keeps_more(inner),
        Value::UnknownChoice(_) => true,
        _ => false,
    }
}

/// What the program should say: the bytes that the value of these is written as. And whether it may say others.
fn again(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    bytes: &[u8],
    name: &str,
) -> Result<(Vec<u8>, bool), Error> {
    let limits = Limits::default();
    let (value, written) = match name {
        "ber" | "der" => {
            let rules = if name == "ber" { Rules::Ber } else { Rules::Der };
            let value = Coding::Tagged(rules).decode(schema, ty, bytes, limits)?;
            let written = Coding::Tagged(Rules::Der).encode(schema, ty, &value)?;
            (value, written)
        }
        "jer" => {
            let text = std::str::from_utf8(bytes).map_err(|e| Error::of_value(e.to_string()))?;
            let value = jer::from_json(schema, text, ty)?;
            // Constraints are asked for when it is encoded.
            Coding::Tagged(Rules::Ber).encode(schema, ty, &value)?;
            let written = jer::to_json(schema, &value, ty).into_bytes();
            (value, written)
        }
        _ => {
            let value = Coding::Forward(syntax_of(name)).decode(schema, ty, bytes, limits)?;
            let written = Coding::Forward(syntax_of(name)).encode(schema, ty, &value)?;
            (value, written)
        }
    };
    Ok((written, keeps_more(&value)))
}

/// An encoding that the program is asked about.
struct Case<'f> {
    line: String,
    is_whole: bool,
    module: &'f str,
    expected: Result<(Vec<u8>, bool), Error>,
}

impl Case<'_> {
    /// Both say the same. Only the interpreter nests deeper; and of what is damaged it keeps what an extension marker
    /// let pass, and the digits of a REAL.
    fn agrees(&self, answer: &str) -> bool {
        match (answer.strip_prefix('='), &self.expected) {
            (Some(bytes), Ok((expected, may_differ))) => {
                *bytes == hex(expected) || !self.is_whole && *may_differ
            }
            // An alternative that only generated code keeps, where an extension marker lets it.
            (Some(_), Err(error)) => !self.is_whole && error.to_string().contains("no alternative"),
            // Generated code has 64 bits for an INTEGER with names, and stops at fewer elements.
            (None, Ok(_)) => {
                let is_bounded = answer.contains("too wide") || answer.contains(" elements");
                answer.contains("nested deeper") || !self.is_whole && is_bounded
            }
            (None, Err(_)) => !self.is_whole || answer.contains("nested deeper"),
        }
    }
}

/// Values of a type in every encoding, as they are and with one bit changed.
fn cases<'f>(
    schema: &Schema<'_, '_>,
    ty: TypeId,
    name: &str,
    module: &'f str,
    seed: u64,
) -> Vec<Case<'f>> {
    let mut cases = Vec::new();
    for n in 0..number("FUSEWIRE_VALUES", 6) {
        // So few that hardly anything is nested too deeply.
        let dice = decisions(seed << 20 | n, 32);
        let value = a_value(schema, ty, &mut Dice(dice.iter()));
        for syntax in SYNTAXES {
            let bytes = encode(schema, ty, &value, syntax)
                .unwrap_or_else(|e| panic!("{name} {syntax}: {e}\n{module}"));
            let mut damaged = bytes.clone();
            let at = (dice[n as usize % dice.len()] as usize) % (damaged.len() * 8).max(1);
            if let Some(byte) = damaged.get_mut(at / 8) {
                *byte ^= 1 << (at % 8);
            }
            for (bytes, is_whole) in [(bytes, true), (damaged, false)] {
                let expected = again(schema, ty, &bytes, syntax);
                // What is nested too deeply is refused by both.
                let is_whole = is_whole && !expected.as_ref().is_err_and(is_too_deep);
                assert!(expected.is_ok() || !is_whole, "{name} {syntax}: {expected:?}\n{module}");
                let line = format!("{name} {syntax} {}", hex(&bytes));
                cases.push(Case { line, is_whole, module, expected });
            }
        }
    }
    cases
}

/// Random modules, which are right.
fn random_modules(count: u64, seed: u64) -> Checked {
    let sources = (0..count).map(|n| {
        let decisions = decisions(seed << 20 | n, 400);
        let name = format!("M{n}");
        let text = a_module(&name, &mut Dice(decisions.iter()));
        Source::new(name, text.as_bytes())
    });
    let checked = check(sources.collect());
    if let Some(diagnostic) = checked.diagnostics.iter().find(|d| d.is_error()) {
        let source = &checked.files[diagnostic.file].source;
        panic!("{}\n{}", diagnostic.display(source), source.text());
    }
    checked
}

#[test]
fn generated_code_and_interpreter_agree() {
    let seed = number("FUSEWIRE_SEED", 1);
    let checked = random_modules(number("FUSEWIRE_MODULES", 30), seed);
    let files: Vec<&File> = checked.files.iter().collect();
    // Of every other module each type is a message, whatever others are made of it.
    let modules = checked.files.iter().skip(1).step_by(2).map(|f| &f.modules[0]);
    let messages = modules
        .flat_map(|m| m.assignments.iter().map(|a| format!("{}.{}", m.name.text, a.name.text)));
    let messages = messages.filter(|name| !name.ends_with(".P")).collect();
    let options = Options { encodings: Encoding::all(), messages, ..Options::default() };
    let modules = generate(files.iter().copied(), &options);
    let world = World::new(files.iter().copied());
    let mut schema = Schema::new(&world);
    let (mut types, mut all) = (Vec::new(), Vec::new());
    for file in &files {
        let assignments = file.modules[0].assignments.iter();
        for assignment in assignments.filter(|a| a.parameters.is_empty()) {
            let name = format!("{}.{}", file.modules[0].name.text, assignment.name.text);
            if is_alias(&modules, &name) {
                continue;
            }
            let ty = schema.type_named(&name).expect("a type");
            let seed = seed << 20 | types.len() as u64;
            all.extend(cases(&schema, ty, &name, file.source.text(), seed));
            types.push(name);
        }
    }
    let lines: String = all.iter().map(|c| c.line.clone() + "\n").collect();
    let answers = answers(&built(&modules, &types), &lines);
    assert_eq!(answers.len(), all.len());
    let refused = answers.iter().filter(|a| a.starts_with('!')).count();
    let different: Vec<_> = all.iter().zip(&answers).filter(|(c, a)| !c.agrees(a)).collect();
    println!("{} types, {} encodings, {refused} refused", types.len(), all.len());
    for (case, answer) in different.iter().take(8) {
        let expected = case.expected.as_ref().map(|b| hex(&b.0));
        let Case { line, module, .. } = case;
        println!("{line}\n  generated:   {answer}\n  interpreter: {expected:?}\n{module}");
    }
    assert!(different.is_empty(), "{} not alike", different.len());
}
