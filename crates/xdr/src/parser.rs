//! Tokens into [`ast`](crate::ast): recursive descent, one function for each rule of RFC 4506, section 6.3,
//! and RFC 5531, section 12.2. What cannot be read is said once, and passed over up to where the next
//! declaration or definition begins.

use fusewire_asn1::Diagnostic;
use fusewire_asn1::source::{Source, Span};

use crate::ast::*;
use crate::lexer::{Kind, Token};

/// Reads a file.
pub fn parse(
    source: &Source,
    tokens: &[Token],
    diagnostics: &mut Vec<Diagnostic>,
) -> Specification {
    let mut parser =
        Parser { source, tokens, at: 0, depth: 0, namespaces: Vec::new(), diagnostics };
    parser.specification()
}

/// RFC 4506, section 6.4, and RFC 5531, section 12.3.
const KEYWORDS: [&str; 20] = [
    "bool",
    "case",
    "const",
    "default",
    "double",
    "quadruple",
    "enum",
    "float",
    "hyper",
    "int",
    "opaque",
    "program",
    "string",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "version",
    "void",
];

/// Words that begin a definition.
const BEGINNINGS: [&str; 7] =
    ["const", "typedef", "enum", "struct", "union", "program", "namespace"];

/// Types inside of types inside of types: more is refused.
const DEPTH_MAX: u32 = 64;

/// What was said is wrong here; the caller passes over it.
struct Wrong;

type Read<T> = Result<T, Wrong>;

struct Parser<'a> {
    source: &'a Source,
    tokens: &'a [Token],
    at: usize,
    depth: u32,
    /// The namespaces that are open.
    namespaces: Vec<Span>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    // ---- tokens

    fn token(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn text(&self) -> &'a str {
        self.source.slice(self.token().span)
    }

    fn next(&mut self) -> Token {
        let token = self.token();
        self.at += 1;
        token
    }

    fn is_end(&self) -> bool {
        self.token().kind == Kind::End
    }

    fn is_sign(&self, sign: u8) -> bool {
        self.token().kind == Kind::Sign(sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token().kind == Kind::Word && self.text() == word
    }

    fn take_sign(&mut self, sign: u8) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    // ---- what is wrong

    fn wrong<T>(&mut self, message: impl Into<String>, help: impl Into<String>) -> Read<T> {
        let span = self.token().span;
        self.diagnostics.push(Diagnostic::error(0, span, message).help(help));
        Err(Wrong)
    }

    fn warn(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(0, span, message).help(help));
    }

    fn found(&self) -> String {
        match self.token().kind {
            Kind::End => "the end of the file".to_owned(),
            _ => format!("`{}`", fusewire_asn1::diagnostic::shortened(self.text())),
        }
    }

    fn sign(&mut self, sign: u8, help: &str) -> Read<()> {
        if self.take_sign(sign) {
            return Ok(());
        }
        let message = format!("`{}` is expected, {} is found", char::from(sign), self.found());
        self.wrong(message, help)
    }

    /// `;`, and the place where it is missing is behind what stands before.
    fn semicolon(&mut self) -> Read<()> {
        if self.take_sign(b';') {
            return Ok(());
        }
        let before = self.tokens[self.at.min(self.tokens.len()).saturating_sub(1)].span;
        let message = format!("`;` is expected, {} is found", self.found());
        let diagnostic = Diagnostic::error(0, before, message).help("end the declaration with `;`");
        self.diagnostics.push(diagnostic);
        Err(Wrong)
    }

    // ---- passing over

    /// To where a definition can begin.
    fn skip_definition(&mut self, from: usize) {
        let mut depth = 0_u32;
        self.at = self.at.max(from + 1);
        // Braces that were opened on the way to here.
        for token in &self.tokens[from..self.at.min(self.tokens.len())] {
            match token.kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        while !self.is_end() {
            let begins = self.starts_line()
                && (self.token().kind == Kind::Define || BEGINNINGS.contains(&self.text()));
            if depth == 0 && begins {
                return;
            }
            if depth == 0 && self.is_sign(b'}') && !self.namespaces.is_empty() {
                return;
            }
            match self.next().kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth = depth.saturating_sub(1),
                Kind::Sign(b';') if depth == 0 => return,
                _ => {}
            }
        }
    }

    fn starts_line(&self) -> bool {
        let line = |n: usize| self.source.line_index(self.tokens[n].span.start);
        self.at == 0 || (self.at < self.tokens.len() && line(self.at - 1) != line(self.at))
    }

    /// To behind the `;` of a declaration, or to the `}` of what it stands in.
    fn skip_declaration(&mut self) {
        let mut depth = 0_u32;
        while !self.is_end() {
            match self.token().kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') if depth == 0 => return,
                Kind::Sign(b'}') => depth -= 1,
                Kind::Sign(b';') if depth == 0 => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    // ---- definitions

    fn specification(&mut self) -> Specification {
        let mut definitions = Vec::new();
        while !self.is_end() {
            let from = self.at;
            self.depth = 0;
            if self.namespace() {
                continue;
            }
            match self.definition() {
                Ok(definition) => definitions.push(definition),
                Err(Wrong) => self.skip_definition(from),
            }
        }
        for span in std::mem::take(&mut self.namespaces) {
            let diagnostic = Diagnostic::error(0, span, "this namespace has no end");
            self.diagnostics.push(diagnostic.help("add `}`"));
        }
        Specification { definitions }
    }

    /// Reads the beginning or the end of a namespace, which the XDR compilers of some projects have. Returns
    /// `false` if neither is next.
    fn namespace(&mut self) -> bool {
        if self.is_sign(b'}') && self.namespaces.pop().is_some() {
            self.at += 1;
            self.take_sign(b';');
            return true;
        }
        let Some(open) = self.namespace_len().filter(|_| self.is_word("namespace")) else {
            return false;
        };
        let span = self.token().span;
        let message = "a namespace is not in RFC 4506, and its definitions are read without it";
        self.warn(span, message, "names of all namespaces must differ from each other");
        self.namespaces.push(span);
        self.at += open;
        true
    }

    /// Returns the number of tokens of `namespace NAME {`, where NAME can have parts with `::` between them.
    fn namespace_len(&self) -> Option<usize> {
        let kind = |n: usize| self.tokens.get(self.at + n).map(|token| token.kind);
        let mut len = 1;
        loop {
            if kind(len) != Some(Kind::Word) {
                return None;
            }
            match (kind(len + 1), kind(len + 2)) {
                (Some(Kind::Sign(b'{')), _) => return Some(len + 2),
                (Some(Kind::Sign(b':')), Some(Kind::Sign(b':'))) => len += 3,
                _ => return None,
            }
        }
    }

    fn definition(&mut self) -> Read<Definition> {
        if self.token().kind == Kind::Define {
            self.at += 1;
            let name = self.name("a constant")?;
            return self.constant(name);
        }
        let definition = match self.text() {
            "const" => {
                self.at += 1;
                let name = self.name("the constant")?;
                self.sign(b'=', "write `const NAME = NUMBER;`")?;
                self.constant(name)?
            }
            "typedef" => {
                self.at += 1;
                Definition::Type(self.declaration()?)
            }
            "enum" | "struct" | "union" => self.short_form()?,
            "program" => Definition::Program(self.program()?),
            _ => {
                let message = format!("a definition is expected, {} is found", self.found());
                let help = "definitions begin with const, typedef, enum, struct, union or program";
                return self.wrong(message, help);
            }
        };
        self.semicolon()?;
        Ok(definition)
    }

    /// The value of a constant: a number, another constant, or a string.
    fn constant(&mut self, name: Name) -> Read<Definition> {
        if self.token().kind != Kind::Text {
            return Ok(Definition::Constant(name, self.value()?));
        }
        let text = self.text();
        match unescaped(&text[1..text.len() - 1]) {
            Ok(text) => {
                self.at += 1;
                Ok(Definition::Text(name, text))
            }
            Err(escape) => self.wrong(
                format!("cannot read the escape `\\{escape}` in a string"),
                "write \\n, \\t, \\\\ or \\\"",
            ),
        }
    }

    /// `enum NAME { … }`, `struct NAME { … }`, `union NAME switch (…) { … }`.
    fn short_form(&mut self) -> Read<Definition> {
        let word = self.text();
        self.at += 1;
        let name = self.name(match word {
            "enum" => "the enumeration",
            "struct" => "the structure",
            _ => "the union",
        })?;
        let specifier = self.body(word)?;
        Ok(Definition::Type(Declaration { name, shape: Shape::Plain(specifier) }))
    }

    fn body(&mut self, word: &str) -> Read<Specifier> {
        if self.depth >= DEPTH_MAX {
            let message = format!("types stand in each other more than {DEPTH_MAX} deep");
            return self.wrong(message, "give the inner ones names with typedef");
        }
        self.depth += 1;
        let body = match word {
            "enum" => self.enum_body().map(Specifier::Enum),
            "struct" => self.struct_body().map(Specifier::Struct),
            _ => self.union_body().map(|body| Specifier::Union(Box::new(body))),
        };
        self.depth -= 1;
        body
    }

    fn name(&mut self, of: &str) -> Read<Name> {
        let text = self.text();
        if self.token().kind != Kind::Word {
            let message = format!("the name of {of} is expected, {} is found", self.found());
            return self.wrong(message, "a name is a letter, then letters, digits and underscores");
        }
        if KEYWORDS.contains(&text) {
            let message = format!("`{text}` is a keyword and cannot be the name of {of}");
            return self.wrong(message, "choose another name");
        }
        Ok(Name { text: text.to_owned(), span: self.next().span })
    }

    fn value(&mut self) -> Read<Value> {
        let text = self.text();
        match self.token().kind {
            Kind::Word if !KEYWORDS.contains(&text) => Ok(Value::Name(self.name("a constant")?)),
            Kind::Number => match number(text) {
                Ok(value) => Ok(Value::Number(Some(value), self.next().span)),
                Err(why) => {
                    let message = format!("`{text}` is no number: {why}");
                    self.diagnostics.push(
                        Diagnostic::error(0, self.token().span, message)
                            .help("write it like 10, -10, 0xa or 012"),
                    );
                    Ok(Value::Number(None, self.next().span))
                }
            },
            _ => {
                let message =
                    format!("a number or a constant's name is expected, {} is found", self.found());
                self.wrong(message, "write a number like 10, -10, 0xa or 012, or a constant's name")
            }
        }
    }

    // ---- types

    fn enum_body(&mut self) -> Read<Vec<Enumerator>> {
        self.sign(b'{', "write `enum NAME { NAME = NUMBER, … };`")?;
        let mut enumerators = Vec::new();
        loop {
            if self.is_sign(b'}') && !enumerators.is_empty() {
                let span = self.next().span;
                self.warn(
                    span,
                    "a comma before the end",
                    "remove the comma: RFC 4506 has none there",
                );
                return Ok(enumerators);
            }
            let name = self.name("an enumerator")?;
            let value = match self.take_sign(b'=') {
                true => Some(self.value()?),
                false => {
                    let message = "this enumerator has no number, and gets the next one";
                    self.warn(name.span, message, "RFC 4506 wants `NAME = NUMBER`");
                    None
                }
            };
            enumerators.push(Enumerator { name, value });
            if !self.take_sign(b',') {
                self.sign(b'}', "write `,` between enumerators and `}` after the last one")?;
                return Ok(enumerators);
            }
        }
    }

    fn struct_body(&mut self) -> Read<Vec<Declaration>> {
        self.sign(b'{', "write `struct NAME { TYPE NAME; … };`")?;
        self.items("the structure", "}", Self::declaration)
    }

    /// What stands up to `}`, each with a semicolon behind it.
    fn items<T>(
        &mut self,
        of: &str,
        end: &str,
        item: impl Fn(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut items = Vec::new();
        while !self.take_sign(b'}') {
            if self.is_end() {
                return self.wrong(format!("{of} has no end"), format!("add `{end}`"));
            }
            match item(self).and_then(|item| self.semicolon().map(|()| item)) {
                Ok(item) => items.push(item),
                Err(Wrong) => self.skip_declaration(),
            }
        }
        Ok(items)
    }

    fn union_body(&mut self) -> Read<Union> {
        const HOW: &str = "write `union NAME switch (TYPE NAME) { case VALUE: TYPE NAME; … };`";
        if !self.take_word("switch") {
            return self.wrong(format!("`switch` is expected, {} is found", self.found()), HOW);
        }
        self.sign(b'(', HOW)?;
        let discriminant = self.declaration()?;
        self.sign(b')', HOW)?;
        self.sign(b'{', HOW)?;
        let mut union = Union { discriminant, cases: Vec::new(), default: None };
        while !self.take_sign(b'}') {
            if self.is_end() {
                return self.wrong("the union has no end", "add `}`");
            }
            if self.case(&mut union).is_err() {
                self.skip_declaration();
            }
        }
        Ok(union)
    }

    fn case(&mut self, union: &mut Union) -> Read<()> {
        let mut values = Vec::new();
        let at = self.token().span;
        while self.take_word("case") {
            values.push(self.value()?);
            self.sign(b':', "write `case VALUE:`")?;
        }
        let is_default = values.is_empty() && self.take_word("default");
        if is_default {
            self.sign(b':', "write `default:`")?;
        } else if values.is_empty() {
            let message = format!("`case` or `default` is expected, {} is found", self.found());
            return self.wrong(message, "each arm of a union begins with its case");
        }
        if self.is_word("case") || self.is_word("default") {
            let help = "write what is there in this case, or `void;`";
            return self.wrong("this arm of the union declares nothing", help);
        }
        let arm = self.declaration()?;
        if union.default.is_some() {
            let message = "this stands behind the union's default";
            self.diagnostics.push(
                Diagnostic::error(0, at, message).help("default is the last arm, and the only one"),
            );
        }
        match is_default {
            true => union.default = Some(arm),
            false => union.cases.push(Case { values, arm }),
        }
        self.semicolon()
    }

    fn declaration(&mut self) -> Read<Declaration> {
        let at = self.token().span;
        if self.take_word("void") {
            return Ok(Declaration {
                name: Name { text: String::new(), span: at },
                shape: Shape::Void,
            });
        }
        if self.take_word("opaque") {
            let name = self.name("the opaque data")?;
            let shape = match self.bounds()? {
                Bounds::Fixed(len) => Shape::OpaqueFixed(len),
                Bounds::Variable(most) => Shape::Opaque(most),
                Bounds::None => return self.wrong("opaque data has no length", OPAQUE),
            };
            return Ok(Declaration { name, shape });
        }
        if self.take_word("string") {
            if self.is_sign(b'*') {
                return self.wrong("a string cannot be optional itself", "typedef it first");
            }
            let name = self.name("the string")?;
            let shape = match self.bounds()? {
                Bounds::Variable(most) => Shape::Text(most),
                _ => {
                    let help = "write `string NAME<>`, or `string NAME<MOST>`";
                    return self.wrong("a string's length is variable", help);
                }
            };
            return Ok(Declaration { name, shape });
        }
        let specifier = self.specifier()?;
        if self.take_sign(b'*') {
            let name = self.name("the optional data")?;
            return Ok(Declaration { name, shape: Shape::Optional(specifier) });
        }
        let name = self.name("what is declared")?;
        let shape = match self.bounds()? {
            Bounds::None => Shape::Plain(specifier),
            Bounds::Fixed(len) => Shape::Fixed(specifier, len),
            Bounds::Variable(most) => Shape::Variable(specifier, most),
        };
        Ok(Declaration { name, shape })
    }

    fn bounds(&mut self) -> Read<Bounds> {
        if self.take_sign(b'[') {
            let len = self.value()?;
            self.sign(b']', "write `NAME[LENGTH]`")?;
            return Ok(Bounds::Fixed(len));
        }
        if self.take_sign(b'<') {
            if self.take_sign(b'>') {
                return Ok(Bounds::Variable(None));
            }
            let most = self.value()?;
            self.sign(b'>', "write `NAME<MOST>`, or `NAME<>` for any length")?;
            return Ok(Bounds::Variable(Some(most)));
        }
        Ok(Bounds::None)
    }

    fn specifier(&mut self) -> Read<Specifier> {
        let text = self.text();
        if self.token().kind != Kind::Word {
            let message = format!("a type is expected, {} is found", self.found());
            return self.wrong(message, "write int, hyper, bool, string, opaque or another type");
        }
        let basic = match text {
            "int" => Basic::Int,
            "hyper" => Basic::Hyper,
            "float" => Basic::Float,
            "double" => Basic::Double,
            "quadruple" => Basic::Quadruple,
            "bool" => Basic::Bool,
            "unsigned" => return Ok(self.unsigned()),
            "long" | "short" | "char" => {
                let span = self.next().span;
                let message = format!("`{text}` is not in RFC 4506, and is read as `int`");
                self.warn(span, message, "write int");
                return Ok(Specifier::Basic(Basic::Int));
            }
            "enum" | "struct" | "union" => {
                self.at += 1;
                // `struct NAME` as C writes it.
                let is_reference = self.token().kind == Kind::Word && text != "union"
                    || (text == "union" && !self.is_word("switch"));
                if is_reference {
                    return Ok(Specifier::Named(self.name("a type")?));
                }
                return self.body(text);
            }
            "opaque" | "string" | "void" => {
                let message = format!("`{text}` cannot stand here");
                return self.wrong(message, "give it a name with typedef, and use the name");
            }
            _ => return Ok(Specifier::Named(self.name("a type")?)),
        };
        self.at += 1;
        Ok(Specifier::Basic(basic))
    }

    /// `unsigned int`, `unsigned hyper`, and what rpcgen also takes.
    fn unsigned(&mut self) -> Specifier {
        let at = self.next().span;
        if self.take_word("hyper") {
            return Specifier::Basic(Basic::UnsignedHyper);
        }
        if !self.take_word("int") {
            let is_other = ["long", "short", "char"].contains(&self.text());
            self.at += usize::from(is_other);
            let message = "this is not in RFC 4506, and is read as `unsigned int`";
            self.warn(at, message, "write unsigned int");
        }
        Specifier::Basic(Basic::UnsignedInt)
    }

    // ---- programs

    fn program(&mut self) -> Read<Program> {
        self.at += 1;
        let name = self.name("the program")?;
        self.sign(b'{', "write `program NAME { version … } = NUMBER;`")?;
        let versions = self.items("the program", "} = NUMBER;", Self::version)?;
        Ok(Program { name, versions, number: self.assigned("the program")? })
    }

    fn version(&mut self) -> Read<Version> {
        if !self.take_word("version") {
            let message = format!("`version` is expected, {} is found", self.found());
            return self.wrong(message, "a program is a list of versions");
        }
        let name = self.name("the version")?;
        self.sign(b'{', "write `version NAME { … } = NUMBER;`")?;
        let procedures = self.items("the version", "} = NUMBER;", Self::procedure)?;
        Ok(Version { name, procedures, number: self.assigned("the version")? })
    }

    fn assigned(&mut self, of: &str) -> Read<Value> {
        self.sign(b'=', &format!("give {of} its number: `}} = NUMBER;`"))?;
        self.value()
    }

    fn procedure(&mut self) -> Read<Procedure> {
        let result = match self.take_word("void") {
            true => None,
            false => Some(self.argument()?),
        };
        let name = self.name("the procedure")?;
        self.sign(b'(', "write `RESULT NAME(ARGUMENT) = NUMBER;`")?;
        let mut arguments = Vec::new();
        if !self.take_word("void") && !self.is_sign(b')') {
            arguments.push(self.argument()?);
            while self.take_sign(b',') {
                arguments.push(self.argument()?);
            }
        }
        self.sign(b')', "write `,` between arguments and `)` after the last one")?;
        self.sign(b'=', "give the procedure its number: `= NUMBER;`")?;
        Ok(Procedure { name, result, arguments, number: self.value()? })
    }

    /// A type, or `string`, which rpcgen has.
    fn argument(&mut self) -> Read<Specifier> {
        if self.is_word("string") {
            self.at += 1;
            if self.take_sign(b'<') {
                self.sign(b'>', "only `string` or `string<>` can stand here")?;
            }
            return Ok(Specifier::Basic(Basic::Text));
        }
        let specifier = self.specifier()?;
        if matches!(specifier, Specifier::Basic(_) | Specifier::Named(_) | Specifier::Wrong) {
            return Ok(specifier);
        }
        self.wrong("a type without a name stands here", "give it a name, and use the name")
    }
}

const OPAQUE: &str = "write `opaque NAME[LENGTH]`, `opaque NAME<MOST>` or `opaque NAME<>`";

enum Bounds {
    None,
    Fixed(Value),
    Variable(Option<Value>),
}

/// Resolves the escapes of a string of C, or returns the character of one that is not supported.
fn unescaped(text: &str) -> Result<String, char> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(c @ ('\\' | '"' | '\'')) => c,
                other => return Err(other.unwrap_or(' ')),
            },
            c => c,
        });
    }
    Ok(out)
}

/// RFC 4506, section 6.2 (4) to (6).
fn number(text: &str) -> Result<i128, &'static str> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    if digits.is_empty() {
        return Err("no digits follow");
    }
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(match radix {
            8 => "a number that begins with 0 is octal, and its digits are 0 to 7",
            16 => "hexadecimal digits are 0 to 9 and a to f",
            _ => "decimal digits are 0 to 9",
        });
    }
    let magnitude =
        i128::from_str_radix(digits, radix).map_err(|_| "it is too large for any type")?;
    Ok(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!((number("-10"), number("0x1F")), (Ok(-10), Ok(31)));
        assert_eq!((number("012"), number("0")), (Ok(10), Ok(0)));
        assert!(number("08").is_err() && number("0x").is_err() && number("1a").is_err());
        assert!(number(&"9".repeat(60)).is_err());
    }
}
