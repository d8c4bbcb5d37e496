//! The one name space of a file (RFC 4506, section 6.4; RFC 5531, section 12.3): constants with their
//! numbers, types with their places in the model, programs.

use std::collections::HashMap;

use fusewire_asn1::Diagnostic;

use crate::ast::*;
use crate::model::{DefId, Type};

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// A constant, an enumerator, `TRUE` or `FALSE`; none if its number could not be read.
    Number(Option<i128>),
    /// A constant that is a string.
    Text,
    /// A type.
    Type(DefId),
    /// A program.
    Program,
}

/// All names.
#[derive(Debug, Default)]
pub struct Scope {
    names: HashMap<String, Meaning>,
    /// Versions and procedures with their numbers, wherever the program stands: they are constants in rpcgen's output.
    /// `None` if several have the name and their numbers differ.
    procedures: HashMap<String, Option<i128>>,
}

impl Scope {
    /// Everything that a file declares; its types in their order from 0.
    pub fn of(specification: &Specification, diagnostics: &mut Vec<Diagnostic>) -> Scope {
        let mut scope = Scope::default();
        for (name, number) in [("TRUE", 1), ("FALSE", 0)] {
            scope.names.insert(name.to_owned(), Meaning::Number(Some(number)));
        }
        for definition in &specification.definitions {
            if let Definition::Program(program) = definition {
                scope.procedures(program);
            }
        }
        let mut types = 0;
        for definition in &specification.definitions {
            match definition {
                Definition::Constant(name, value) => {
                    let number = scope.number(value, diagnostics);
                    let fits = |n: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(n);
                    if number.is_some_and(|n| !fits(&n)) {
                        let message = "this number has more than 64 bits";
                        diagnostics.push(
                            Diagnostic::error(0, value.span(), message)
                                .help("no type of the language holds it"),
                        );
                    }
                    scope.declare(name, Meaning::Number(number.filter(fits)), diagnostics);
                }
                Definition::Text(name, _) => scope.declare(name, Meaning::Text, diagnostics),
                Definition::Type(declaration) if is_itself(declaration) => {}
                Definition::Type(declaration) => {
                    scope.declare(&declaration.name, Meaning::Type(types), diagnostics);
                    types += 1;
                    scope.enumerators(&declaration.shape, diagnostics);
                }
                Definition::Program(program) => {
                    scope.declare(&program.name, Meaning::Program, diagnostics);
                }
            }
        }
        scope
    }

    fn procedures(&mut self, program: &Program) {
        for version in &program.versions {
            let procedures = version.procedures.iter().map(|p| (&p.name, &p.number));
            for (name, value) in procedures.chain([(&version.name, &version.number)]) {
                let number = self.number(value, &mut Vec::new());
                let found = self.procedures.entry(name.text.clone()).or_insert(number);
                *found = found.filter(|n| Some(*n) == number);
            }
        }
    }

    fn declare(&mut self, name: &Name, meaning: Meaning, diagnostics: &mut Vec<Diagnostic>) {
        if name.text.is_empty() {
            return;
        }
        if self.names.contains_key(&name.text) {
            let message = format!("`{}` is declared twice", name.text);
            let help = "constants, enumerators, types and programs share their names: rename one";
            diagnostics.push(Diagnostic::error(0, name.span, message).help(help));
            return;
        }
        self.names.insert(name.text.clone(), meaning);
    }

    /// Enumerators of a type and of those in it. The parser bounds the depth.
    fn enumerators(&mut self, shape: &Shape, diagnostics: &mut Vec<Diagnostic>) {
        let specifier = match shape {
            Shape::Plain(s) | Shape::Optional(s) | Shape::Fixed(s, _) | Shape::Variable(s, _) => s,
            _ => return,
        };
        match specifier {
            Specifier::Enum(enumerators) => {
                let numbers = self.numbers(enumerators, diagnostics);
                for (enumerator, number) in enumerators.iter().zip(numbers) {
                    let meaning = Meaning::Number(number.map(i128::from));
                    self.declare(&enumerator.name, meaning, diagnostics);
                }
            }
            Specifier::Struct(fields) => {
                fields.iter().for_each(|f| self.enumerators(&f.shape, diagnostics));
            }
            Specifier::Union(union) => {
                self.enumerators(&union.discriminant.shape, diagnostics);
                let arms = union.cases.iter().map(|c| &c.arm).chain(&union.default);
                arms.for_each(|arm| self.enumerators(&arm.shape, diagnostics));
            }
            _ => {}
        }
    }

    /// The numbers of an enumeration.
    pub fn numbers(
        &self,
        enumerators: &[Enumerator],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Option<i32>> {
        let mut numbers: Vec<Option<i32>> = Vec::with_capacity(enumerators.len());
        let mut own: HashMap<&str, Option<i32>> = HashMap::new();
        for enumerator in enumerators {
            let at = enumerator.value.as_ref().map_or(enumerator.name.span, Value::span);
            let found = match &enumerator.value {
                // One of this enumeration's, which are not declared yet.
                Some(Value::Name(name)) if own.contains_key(name.text.as_str()) => {
                    own[name.text.as_str()].map(i128::from)
                }
                Some(value) => self.number(value, diagnostics),
                None => numbers.last().map_or(Some(0), |n| n.map(|n| i128::from(n) + 1)),
            };
            let number = found.and_then(|n| i32::try_from(n).ok());
            if found.is_some() && number.is_none() {
                let message = "this number does not fit an enumeration";
                let help =
                    "the numbers of an enumeration are those of an int, -2147483648 to 2147483647";
                diagnostics.push(Diagnostic::error(0, at, message).help(help));
            }
            own.insert(&enumerator.name.text, number);
            numbers.push(number);
        }
        numbers
    }

    /// The number that a value is; none where what is wrong was said.
    pub fn number(&self, value: &Value, diagnostics: &mut Vec<Diagnostic>) -> Option<i128> {
        let name = match value {
            Value::Number(number, _) => return *number,
            Value::Name(name) => name,
        };
        let (message, help) = match self.names.get(&name.text) {
            Some(Meaning::Number(number)) => return *number,
            Some(Meaning::Type(_)) => {
                ("is a type, and a number is expected", "write a constant's name")
            }
            Some(Meaning::Program) => {
                ("is a program, and a number is expected", "write a constant's name")
            }
            Some(Meaning::Text) => {
                ("is a string, and a number is expected", "write a constant's name")
            }
            None => {
                if let Some(Some(number)) = self.procedures.get(&name.text) {
                    return Some(*number);
                }
                let help = "declare it before: const NAME = NUMBER; or supply it: -D NAME=NUMBER, or --with FILE";
                ("is not declared before this", help)
            }
        };
        let message = format!("`{}` {message}", name.text);
        diagnostics.push(Diagnostic::error(0, name.span, message).help(help));
        None
    }

    /// A number that counts something (RFC 4506, section 6.4 (2); RFC 5531, section 12.3).
    pub fn unsigned(
        &self,
        value: &Value,
        what: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<u32> {
        let number = self.number(value, diagnostics)?;
        let unsigned = u32::try_from(number).ok();
        if unsigned.is_none() {
            let message = format!("{number} cannot be {what}");
            let help = "it is an unsigned number of 32 bits, 0 to 4294967295";
            diagnostics.push(Diagnostic::error(0, value.span(), message).help(help));
        }
        unsigned
    }

    /// The type of a name.
    pub fn named(&self, name: &Name, diagnostics: &mut Vec<Diagnostic>) -> Type {
        let (message, help) = match self.names.get(&name.text) {
            Some(Meaning::Type(id)) => return Type::named(*id),
            Some(Meaning::Text) => ("is a string, and a type is expected", "write a type's name"),
            Some(Meaning::Number(_)) => {
                ("is a number, and a type is expected", "write a type's name")
            }
            Some(Meaning::Program) => {
                ("is a program, and a type is expected", "write a type's name")
            }
            None => match c_type(&name.text) {
                Some((ty, xdr)) => {
                    let message =
                        format!("`{}` is not in RFC 4506, and is read as `{xdr}`", name.text);
                    let help = format!("write {xdr}");
                    diagnostics.push(Diagnostic::warning(0, name.span, message).help(help));
                    return ty;
                }
                None => {
                    let help =
                        "declare it with typedef, enum, struct or union, or supply it: --with FILE";
                    ("is not declared", help)
                }
            },
        };
        let message = format!("`{}` {message}", name.text);
        diagnostics.push(Diagnostic::error(0, name.span, message).help(help));
        Type::Wrong
    }
}

/// `typedef struct NAME NAME;` says nothing, and stands in files for C.
pub fn is_itself(declaration: &Declaration) -> bool {
    matches!(&declaration.shape, Shape::Plain(Specifier::Named(of)) if of.text == declaration.name.text)
}

/// Types of C that files for rpcgen name without declaring them.
fn c_type(name: &str) -> Option<(Type, &'static str)> {
    Some(match name {
        "int32_t" | "int16_t" | "int8_t" => (Type::Int, "int"),
        "u_int" | "u_long" | "u_short" | "u_char" | "uint32_t" | "uint16_t" | "uint8_t"
        | "u_int32_t" | "u_int16_t" | "u_int8_t" => (Type::Uint, "unsigned int"),
        "int64_t" | "quad_t" | "longlong_t" => (Type::Hyper, "hyper"),
        "uint64_t" | "u_int64_t" | "u_quad_t" | "u_hyper" | "u_longlong_t" => {
            (Type::Uhyper, "unsigned hyper")
        }
        "bool_t" => (Type::Bool, "bool"),
        _ => return None,
    })
}
