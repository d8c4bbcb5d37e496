//! What a file means: every declaration becomes a type of the model, those without a name get one, and what
//! RFC 4506, section 6.4, asks of structures and unions is checked.

use std::collections::HashSet;

use fusewire_asn1::Diagnostic;
use fusewire_asn1::source::Span;

use crate::ast::{self, Basic, Declaration, Definition, Specification, Specifier};
use crate::model::*;
use crate::names::{Taken, camel, shout, snake};
use crate::scope::{Scope, is_itself};
use crate::{layout, programs};

/// No message of RPC is as large: a fixed length beyond this is a mistake.
const FIXED_MAX: u32 = 1 << 28;

/// What a file means, as far as it could be read.
pub fn model(specification: &Specification, diagnostics: &mut Vec<Diagnostic>) -> Model {
    let scope = Scope::of(specification, diagnostics);
    let mut lowering =
        Lowering { scope, model: Model::default(), types: Taken::default(), diagnostics };
    lowering.declare(specification);
    for definition in &specification.definitions {
        if let Definition::Program(program) = definition {
            programs::program(&mut lowering, program);
        }
    }
    let mut model = lowering.model;
    layout::finish(&mut model, diagnostics);
    model
}

/// The way from the file's declarations to the model.
pub struct Lowering<'d> {
    pub scope: Scope,
    pub model: Model,
    /// Names of types and modules in Rust.
    pub types: Taken,
    pub diagnostics: &'d mut Vec<Diagnostic>,
}

impl Lowering<'_> {
    pub fn error(&mut self, at: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(0, at, message).help(help));
    }

    /// Types with names first, in their order, as the scope numbers them.
    fn declare(&mut self, specification: &Specification) {
        let mut constants = Taken::default();
        let mut declarations = Vec::new();
        for definition in &specification.definitions {
            match definition {
                Definition::Constant(name, value) => {
                    if let Some(number) = self.scope.number(value, &mut Vec::new()) {
                        let rust = constants.unique(shout(&name.text));
                        let names = Names { xdr: name.text.clone(), rust };
                        let value = ConstantValue::Number(number);
                        self.model.constants.push(Constant { names, value });
                    }
                }
                Definition::Text(name, text) => {
                    let rust = constants.unique(shout(&name.text));
                    let names = Names { xdr: name.text.clone(), rust };
                    let value = ConstantValue::Text(text.clone());
                    self.model.constants.push(Constant { names, value });
                }
                Definition::Type(declaration) if !is_itself(declaration) => {
                    let rust = self.types.unique(camel(&declaration.name.text));
                    self.add(&declaration.name.text, rust, declaration.name.span);
                    declarations.push(declaration);
                }
                _ => {}
            }
        }
        for (id, declaration) in declarations.into_iter().enumerate() {
            let path = declaration.name.text.clone();
            self.model.defs[id].shape = match &declaration.shape {
                ast::Shape::Plain(specifier) => match self.body(specifier, &path) {
                    Some(shape) => shape,
                    None => Shape::Alias(self.specifier(specifier, &path)),
                },
                ast::Shape::Void => {
                    let help = "void stands for nothing: remove the definition";
                    self.error(declaration.name.span, "a type cannot be void", help);
                    Shape::Alias(Type::Wrong)
                }
                shape => Shape::Alias(self.shape(shape, &path)),
            };
        }
    }

    fn add(&mut self, xdr: &str, rust: String, span: Span) -> DefId {
        let names = Names { xdr: xdr.to_owned(), rust };
        let shape = Shape::Alias(Type::Wrong);
        self.model.defs.push(Def { names, span, shape, is_recursive: false });
        self.model.defs.len() - 1
    }

    /// What an enumeration, structure or union is; `path` is its name.
    fn body(&mut self, specifier: &Specifier, path: &str) -> Option<Shape> {
        match specifier {
            Specifier::Enum(enumerators) => Some(self.enumeration(enumerators)),
            Specifier::Struct(fields) => Some(self.structure(fields, path)),
            Specifier::Union(union) => Some(self.union(union, path)),
            _ => None,
        }
    }

    fn enumeration(&mut self, enumerators: &[ast::Enumerator]) -> Shape {
        let numbers = self.scope.numbers(enumerators, &mut Vec::new());
        let mut taken = Taken::default();
        let named = enumerators.iter().zip(numbers).map(|(enumerator, number)| {
            let xdr = enumerator.name.text.clone();
            Variant {
                names: Names { rust: taken.unique(camel(&xdr)), xdr },
                number: number.unwrap_or(0),
            }
        });
        Shape::Enum(named.collect())
    }

    fn structure(&mut self, declarations: &[Declaration], path: &str) -> Shape {
        let (mut taken, mut seen) = (Taken::default(), HashSet::new());
        let mut fields = Vec::new();
        for declaration in declarations {
            let name = &declaration.name;
            if matches!(declaration.shape, ast::Shape::Void) {
                let help = "only an arm of a union can be void: remove it";
                self.error(name.span, "a component of a structure cannot be void", help);
                continue;
            }
            if !seen.insert(name.text.as_str()) {
                let message = format!("`{}` is declared twice in one structure", name.text);
                self.error(name.span, message, "rename one of them");
            }
            fields.push(self.field(declaration, path, &mut taken));
        }
        Shape::Struct(fields)
    }

    fn field(&mut self, declaration: &Declaration, path: &str, taken: &mut Taken) -> Field {
        let xdr = declaration.name.text.clone();
        let ty = self.shape(&declaration.shape, &format!("{path}.{xdr}"));
        Field { names: Names { rust: taken.unique(snake(&xdr)), xdr }, ty }
    }

    /// A declaration's type. What has no name in the file gets one of its path.
    pub fn shape(&mut self, shape: &ast::Shape, path: &str) -> Type {
        use ast::Shape as S;
        match shape {
            S::Void => Type::Wrong,
            S::Plain(of) => self.specifier(of, path),
            S::Optional(of) => Type::Optional(Box::new(self.specifier(of, path))),
            S::Fixed(of, length) => {
                let of = self.specifier(of, path);
                Type::Array(Box::new(of), self.fixed(length))
            }
            S::Variable(of, most) => {
                let of = self.specifier(of, path);
                Type::Array(Box::new(of), Length::AtMost(self.most(most.as_ref())))
            }
            S::OpaqueFixed(length) => Type::Opaque(self.fixed(length)),
            S::Opaque(most) => Type::Opaque(Length::AtMost(self.most(most.as_ref()))),
            S::Text(most) => Type::Text(self.most(most.as_ref())),
        }
    }

    fn fixed(&mut self, value: &ast::Value) -> Length {
        let length = self.scope.unsigned(value, "a length", self.diagnostics);
        if let Some(length) = length.filter(|&n| n > FIXED_MAX) {
            let message = format!("a fixed length of {length} is more than any message has");
            self.error(value.span(), message, "write a smaller one, or a variable length: NAME<>");
            return Length::Exactly(1);
        }
        Length::Exactly(length.unwrap_or(1))
    }

    fn most(&mut self, value: Option<&ast::Value>) -> u32 {
        let most = value.and_then(|v| self.scope.unsigned(v, "a length", self.diagnostics));
        most.unwrap_or(u32::MAX)
    }

    pub fn specifier(&mut self, specifier: &Specifier, path: &str) -> Type {
        match specifier {
            Specifier::Basic(basic) => match basic {
                Basic::Int => Type::Int,
                Basic::UnsignedInt => Type::Uint,
                Basic::Hyper => Type::Hyper,
                Basic::UnsignedHyper => Type::Uhyper,
                Basic::Float => Type::Float,
                Basic::Double => Type::Double,
                Basic::Quadruple => Type::Quadruple,
                Basic::Bool => Type::Bool,
                Basic::Text => Type::Text(u32::MAX),
            },
            Specifier::Named(name) => self.scope.named(name, self.diagnostics),
            Specifier::Wrong => Type::Wrong,
            Specifier::Enum(_) | Specifier::Struct(_) | Specifier::Union(_) => {
                let rust = self.types.unique(camel(&path.replace('.', "_")));
                let span = self.first_name(specifier);
                let id = self.add(path, rust, span);
                if let Some(shape) = self.body(specifier, path) {
                    self.model.defs[id].shape = shape;
                }
                Type::named(id)
            }
        }
    }

    fn first_name(&self, specifier: &Specifier) -> Span {
        match specifier {
            Specifier::Enum(enumerators) => enumerators.first().map(|e| e.name.span),
            Specifier::Struct(fields) => fields.first().map(|f| f.name.span),
            Specifier::Union(union) => Some(union.discriminant.name.span),
            _ => None,
        }
        .unwrap_or_default()
    }

    // ---- unions

    fn union(&mut self, union: &ast::Union, path: &str) -> Shape {
        let discriminant = match &union.discriminant.shape {
            ast::Shape::Plain(of) => {
                self.specifier(of, &format!("{path}.{}", union.discriminant.name.text))
            }
            _ => Type::Wrong,
        };
        if union.cases.is_empty() {
            let help = "write `case VALUE: TYPE NAME;`";
            self.error(union.discriminant.name.span, "this union has no case", help);
        }
        let mut cases =
            Cases { taken: Taken::with(&["Default"]), seen: HashSet::new(), arms: Vec::new() };
        let mut taken = Taken::default();
        for case in &union.cases {
            let field = self.arm(&case.arm, path, &mut taken);
            for value in &case.values {
                cases.add(value, self.number_of(value), &field, self.diagnostics);
            }
        }
        let default = union.default.as_ref().map(|arm| self.arm(arm, path, &mut taken));
        let is_integer =
            matches!(discriminant, Type::Int | Type::Uint | Type::Bool | Type::Named { .. });
        if !is_integer {
            let help = "it is an int, an unsigned int, a bool or an enumeration";
            self.error(union.discriminant.name.span, "a union cannot be switched on this", help);
        }
        // What a name leads to is checked when all names are known.
        Shape::Union(Union { discriminant, arms: cases.arms, default })
    }

    fn arm(&mut self, arm: &Declaration, path: &str, taken: &mut Taken) -> Option<Field> {
        let is_void = matches!(arm.shape, ast::Shape::Void);
        (!is_void).then(|| self.field(arm, path, taken))
    }

    fn number_of(&mut self, value: &ast::Value) -> Option<i64> {
        let number = self.scope.number(value, self.diagnostics)?;
        let fits = i64::from(i32::MIN)..=i64::from(u32::MAX);
        let case = i64::try_from(number).ok().filter(|n| fits.contains(n));
        if case.is_none() {
            self.error(value.span(), "this case has more than 32 bits", "write a smaller number");
        }
        case
    }
}

/// The arms of one union.
struct Cases {
    taken: Taken,
    seen: HashSet<i64>,
    arms: Vec<Arm>,
}

impl Cases {
    fn add(
        &mut self,
        value: &ast::Value,
        number: Option<i64>,
        field: &Option<Field>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let Some(number) = number else { return };
        if !self.seen.insert(number) {
            let message = "this case stands twice in one union";
            let help = "remove one of the two";
            diagnostics.push(Diagnostic::error(0, value.span(), message).help(help));
            return;
        }
        let (xdr, rust) = match value {
            ast::Value::Name(name) => (name.text.clone(), camel(&name.text)),
            ast::Value::Number(..) if number < 0 => {
                (number.to_string(), format!("CaseMinus{}", number.unsigned_abs()))
            }
            ast::Value::Number(..) => (number.to_string(), format!("Case{number}")),
        };
        let rust = self.taken.unique(rust);
        let names = Names { xdr, rust };
        self.arms.push(Arm { value: number, names, span: value.span(), field: field.clone() });
    }
}
