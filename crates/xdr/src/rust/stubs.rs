//! Programs: a module for each, and in it one for each version, with its numbers, the client's calls and
//! what a server implements (RFC 5531).

use super::Writer;
use crate::model::*;

impl Writer<'_> {
    pub fn program(&mut self, program: &Program) {
        let xdr = &program.names.xdr;
        writeln!(self);
        writeln!(self, "/// The program `{xdr}`.");
        writeln!(self, "pub mod {} {{", program.names.rust);
        writeln!(self, "/// Its number.");
        writeln!(self, "pub const PROGRAM: u32 = {};", program.number);
        for version in &program.versions {
            self.version(program, version);
        }
        writeln!(self, "}}");
    }

    fn version(&mut self, program: &Program, version: &Version) {
        writeln!(self);
        writeln!(self, "/// Version {} of it, `{}`.", version.number, version.names.xdr);
        writeln!(self, "pub mod {} {{", version.names.rust);
        if !self.options.no_stubs {
            // Types stand two modules further out.
            writeln!(self, "#[allow(unused_imports)]");
            writeln!(self, "use super::super::*;");
            writeln!(self, "#[allow(unused_imports)]");
            writeln!(self, "use fusewire_codec::{{self as codec, xdr}};");
            writeln!(self, "use fusewire_rpc as rpc;");
            writeln!(self);
        }
        writeln!(self, "/// Its number.");
        writeln!(self, "pub const VERSION: u32 = {};", version.number);
        for procedure in &version.procedures {
            writeln!(self, "/// The procedure `{}`.", procedure.names.xdr);
            writeln!(self, "pub const {}: u32 = {};", constant(procedure), procedure.number);
        }
        if !self.options.no_stubs {
            self.client(program, version);
            self.server(program, version);
        }
        writeln!(self, "}}");
    }

    // ---- the client's side

    fn client(&mut self, program: &Program, version: &Version) {
        let (name, number) = (&program.names.xdr, version.number);
        writeln!(self);
        writeln!(self, "/// Calls of version {number} of `{name}`.");
        writeln!(self, "#[derive(Debug)]");
        writeln!(self, "pub struct Client<T>(pub rpc::Client<T>);");
        writeln!(self);
        writeln!(self, "#[allow(clippy::redundant_closure)]");
        writeln!(self, "impl<T: rpc::Transport> Client<T> {{");
        writeln!(self, "/// Calls over `transport`, with the default settings.");
        writeln!(self, "pub fn new(transport: T) -> Self {{");
        writeln!(self, "Self::with(transport, rpc::Config::default())");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// Calls over `transport`.");
        writeln!(self, "pub fn with(transport: T, config: rpc::Config) -> Self {{");
        writeln!(self, "Self(rpc::Client::new(transport, super::PROGRAM, VERSION, config))");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// What a call that was begun returns.");
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// Those of the call.");
        writeln!(
            self,
            "pub fn wait<R>(&mut self, call: rpc::Pending<R>) -> Result<R, rpc::Error> {{"
        );
        writeln!(self, "self.0.wait(call)");
        writeln!(self, "}}");
        if version.procedures.iter().all(|p| p.number != 0) {
            let names = Names { xdr: "NULL".to_owned(), rust: "null".to_owned() };
            let null = Procedure { names, number: 0, arguments: Vec::new(), result: None };
            self.calls(&null);
        }
        version.procedures.iter().for_each(|p| self.calls(p));
        writeln!(self, "}}");
    }

    fn calls(&mut self, procedure: &Procedure) {
        let xdr = &procedure.names.xdr;
        let rust = &procedure.names.rust;
        let plain = rust.trim_start_matches("r#");
        let result = procedure.result.as_ref().map_or("()".to_owned(), |ty| self.ty(ty));
        let mut parameters = String::new();
        let mut passed = Vec::new();
        for (n, ty) in procedure.arguments.iter().enumerate() {
            let name = argument(procedure, n);
            parameters += &format!(", {name}: {}", self.lent(ty));
            passed.push(name);
        }
        let passed = passed.join(", ");
        writeln!(self);
        writeln!(self, "/// `{xdr}`");
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// The call was not answered, refused, or failed there.");
        writeln!(self, "pub fn {rust}(&mut self{parameters}) -> Result<{result}, rpc::Error> {{");
        writeln!(self, "let call = self.begin_{plain}({passed})?;");
        writeln!(self, "self.0.wait(call)");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// Begins `{xdr}`, to be waited for later: many calls can be under way.");
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// The call cannot be sent, or there are too many.");
        writeln!(
            self,
            "pub fn begin_{plain}(&mut self{parameters}) -> Result<rpc::Pending<{result}>, rpc::Error> {{"
        );
        let mut written = String::from("Ok(())");
        for (n, ty) in procedure.arguments.iter().enumerate() {
            let name = argument(procedure, n);
            let at = if self.is_copied(ty) { format!("&{name}") } else { name.clone() };
            let part = format!("({}).map_err(|e| e.in_field(\"{name}\"))", self.encoding(ty, &at));
            if n == 0 { written = part } else { written += &format!(".and_then(|()| {part})") }
        }
        let to = if procedure.arguments.is_empty() { "_" } else { "to" };
        let (from, read) = match &procedure.result {
            Some(ty) => ("from", self.decoding(ty)),
            None => ("_", "Ok(())".to_owned()),
        };
        let number = if plain == "null" && procedure.names.xdr == "NULL" {
            "0".to_owned()
        } else {
            constant(procedure)
        };
        writeln!(self, "self.0.begin({number}, |{to}| {written}, |{from}| {read})");
        writeln!(self, "}}");
    }

    /// An argument's type, as a client gives it.
    fn lent(&self, ty: &Type) -> String {
        if self.is_copied(ty) {
            return self.ty(ty);
        }
        match self.model.target(ty) {
            Type::Opaque(Length::InPlace(_)) => format!("&{}", self.ty(ty)),
            Type::Opaque(_) => "&[u8]".to_owned(),
            Type::Text(_) if self.options.utf8_strings => "&str".to_owned(),
            Type::Text(_) => "&[u8]".to_owned(),
            Type::Array(of, Length::AtMost(_) | Length::Exactly(_)) => {
                format!("&[{}]", self.ty(of))
            }
            Type::List(id) => format!("&[{}]", self.model.defs[*id].names.rust),
            _ => format!("&{}", self.ty(ty)),
        }
    }

    fn is_copied(&self, ty: &Type) -> bool {
        use Type as T;
        match self.model.target(ty) {
            T::Int | T::Uint | T::Hyper | T::Uhyper | T::Float | T::Double | T::Bool => true,
            T::Named { id, .. } => matches!(self.model.defs[*id].shape, Shape::Enum(_)),
            _ => false,
        }
    }

    // ---- the server's side

    fn server(&mut self, program: &Program, version: &Version) {
        let (name, number) = (&program.names.xdr, version.number);
        writeln!(self);
        writeln!(self, "/// What a server of version {number} of `{name}` does.");
        writeln!(self, "pub trait Server {{");
        for procedure in &version.procedures {
            self.method(procedure);
        }
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// A [`Server`] for [`rpc::Services`].");
        writeln!(self, "#[derive(Clone, Debug)]");
        writeln!(self, "pub struct Service<S>(pub S);");
        writeln!(self);
        writeln!(self, "impl<S: Server> rpc::Service for Service<S> {{");
        writeln!(self, "fn program(&self) -> u32 {{");
        writeln!(self, "super::PROGRAM");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "fn version(&self) -> u32 {{");
        writeln!(self, "VERSION");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "#[allow(clippy::redundant_closure)]");
        writeln!(self, "fn read(");
        writeln!(self, "&self,");
        writeln!(self, "procedure: u32,");
        writeln!(self, "from: &mut rpc::message::MessageDecoder<'_>,");
        writeln!(self, ") -> Result<rpc::Prepared<'_>, rpc::Fault> {{");
        writeln!(self, "match procedure {{");
        for procedure in &version.procedures {
            self.dispatch(procedure);
        }
        writeln!(self, "_ => Err(rpc::Fault::NoProcedure),");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    fn method(&mut self, procedure: &Procedure) {
        let result = procedure.result.as_ref().map_or("()".to_owned(), |ty| self.ty(ty));
        let mut parameters = String::new();
        for (n, ty) in procedure.arguments.iter().enumerate() {
            parameters += &format!(", {}: {}", argument(procedure, n), self.ty(ty));
        }
        let head = format!(
            "fn {}(&self, call: &rpc::Call<'_>{parameters}) -> Result<{result}, rpc::Fault>",
            procedure.names.rust
        );
        writeln!(self, "/// `{}`", procedure.names.xdr);
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// What the caller is told instead of a result.");
        if procedure.number == 0 {
            writeln!(self, "#[allow(unused_variables)]");
            writeln!(self, "{head} {{");
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        } else {
            writeln!(self, "{head};");
        }
    }

    fn dispatch(&mut self, procedure: &Procedure) {
        writeln!(self, "{} => {{", constant(procedure));
        let mut passed = String::new();
        for (n, ty) in procedure.arguments.iter().enumerate() {
            let (name, read) = (argument(procedure, n), self.decoding(ty));
            let rust = self.ty(ty);
            writeln!(
                self,
                "let {name}: {rust} = rpc::argument(from.field(\"{name}\", |from| {read}))?;"
            );
            passed += &format!(", {name}");
        }
        writeln!(self, "rpc::no_more(from)?;");
        let call = format!("self.0.{}(call{passed})?", procedure.names.rust);
        match &procedure.result {
            Some(ty) => {
                let written = self.encoding(ty, "&result");
                writeln!(self, "Ok(Box::new(move |call, reply| {{");
                writeln!(self, "let result = {call};");
                writeln!(self, "reply.result(|to| {written})");
                writeln!(self, "}}))");
            }
            None => writeln!(self, "Ok(Box::new(move |call, _| {}))", call.trim_end_matches('?')),
        }
        writeln!(self, "}}");
    }
}

/// The name of a procedure's number.
fn constant(procedure: &Procedure) -> String {
    let name = procedure.names.rust.trim_start_matches("r#").to_ascii_uppercase();
    if name == "VERSION" || name == "PROGRAM" { format!("{name}_") } else { name }
}

/// What the argument of that number is called.
fn argument(procedure: &Procedure, n: usize) -> String {
    if procedure.arguments.len() == 1 {
        "argument".to_owned()
    } else {
        format!("argument_{}", n + 1)
    }
}
