//! Programs: a module for each, and in it one for each version, with its numbers, the client's calls and
//! what a server implements (RFC 5531).

use std::fmt::Write;

use super::{Writer, line};
use crate::model::*;

impl Writer<'_> {
    pub fn program(&mut self, program: &Program) {
        let xdr = &program.names.xdr;
        line!(self, "");
        line!(self, "/// The program `{xdr}`.");
        line!(self, "pub mod {} {{", program.names.rust);
        line!(self, "    /// Its number.");
        line!(self, "    pub const PROGRAM: u32 = {};", program.number);
        for version in &program.versions {
            self.version(program, version);
        }
        line!(self, "}}");
    }

    fn version(&mut self, program: &Program, version: &Version) {
        line!(self, "");
        line!(self, "    /// Version {} of it, `{}`.", version.number, version.names.xdr);
        line!(self, "    pub mod {} {{", version.names.rust);
        if !self.options.no_stubs {
            // Types stand two modules further out.
            line!(self, "        #[allow(unused_imports)]");
            line!(self, "        use super::super::*;");
            line!(self, "        use fusewire_codec::{{self as codec, xdr}};");
            line!(self, "        use fusewire_rpc as rpc;");
            line!(self, "");
        }
        line!(self, "        /// Its number.");
        line!(self, "        pub const VERSION: u32 = {};", version.number);
        for procedure in &version.procedures {
            line!(self, "        /// The procedure `{}`.", procedure.names.xdr);
            line!(self, "        pub const {}: u32 = {};", constant(procedure), procedure.number);
        }
        if !self.options.no_stubs {
            self.client(program, version);
            self.server(program, version);
        }
        line!(self, "    }}");
    }

    // ---- the client's side

    fn client(&mut self, program: &Program, version: &Version) {
        let (name, number) = (&program.names.xdr, version.number);
        line!(self, "");
        line!(self, "        /// Calls of version {number} of `{name}`.");
        line!(self, "        #[derive(Debug)]");
        line!(self, "        pub struct Client<T>(pub rpc::Client<T>);");
        line!(self, "");
        line!(self, "        #[allow(clippy::redundant_closure)]");
        line!(self, "        impl<T: rpc::Transport> Client<T> {{");
        line!(self, "            /// Calls over `transport`, with the default settings.");
        line!(self, "            pub fn new(transport: T) -> Self {{");
        line!(self, "                Self::with(transport, rpc::Config::default())");
        line!(self, "            }}");
        line!(self, "");
        line!(self, "            /// Calls over `transport`.");
        line!(self, "            pub fn with(transport: T, config: rpc::Config) -> Self {{");
        line!(
            self,
            "                Self(rpc::Client::new(transport, super::PROGRAM, VERSION, config))"
        );
        line!(self, "            }}");
        line!(self, "");
        line!(self, "            /// What a call that was begun returns.");
        line!(self, "            ///");
        line!(self, "            /// # Errors");
        line!(self, "            /// Those of the call.");
        line!(
            self,
            "            pub fn wait<R>(&mut self, call: rpc::Pending<R>) -> Result<R, rpc::Error> {{"
        );
        line!(self, "                self.0.wait(call)");
        line!(self, "            }}");
        if version.procedures.iter().all(|p| p.number != 0) {
            let names = Names { xdr: "NULL".to_owned(), rust: "null".to_owned() };
            let null = Procedure { names, number: 0, arguments: Vec::new(), result: None };
            self.calls(&null);
        }
        version.procedures.iter().for_each(|p| self.calls(p));
        line!(self, "        }}");
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
        line!(self, "");
        line!(self, "            /// `{xdr}`");
        line!(self, "            ///");
        line!(self, "            /// # Errors");
        line!(self, "            /// The call was not answered, refused, or failed there.");
        line!(
            self,
            "            pub fn {rust}(&mut self{parameters}) -> Result<{result}, rpc::Error> {{"
        );
        line!(self, "                let call = self.begin_{plain}({passed})?;");
        line!(self, "                self.0.wait(call)");
        line!(self, "            }}");
        line!(self, "");
        line!(
            self,
            "            /// Begins `{xdr}`, to be waited for later: many calls can be under way."
        );
        line!(self, "            ///");
        line!(self, "            /// # Errors");
        line!(self, "            /// The call cannot be sent, or there are too many.");
        line!(
            self,
            "            pub fn begin_{plain}(&mut self{parameters}) -> Result<rpc::Pending<{result}>, rpc::Error> {{"
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
        line!(self, "                self.0.begin({number}, |{to}| {written}, |{from}| {read})");
        line!(self, "            }}");
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
        line!(self, "");
        line!(self, "        /// What a server of version {number} of `{name}` does.");
        line!(self, "        pub trait Server {{");
        for procedure in &version.procedures {
            self.method(procedure);
        }
        line!(self, "        }}");
        line!(self, "");
        line!(self, "        /// A [`Server`] for [`rpc::Services`].");
        line!(self, "        #[derive(Clone, Debug)]");
        line!(self, "        pub struct Service<S>(pub S);");
        line!(self, "");
        line!(self, "        impl<S: Server> rpc::Service for Service<S> {{");
        line!(self, "            fn program(&self) -> u32 {{");
        line!(self, "                super::PROGRAM");
        line!(self, "            }}");
        line!(self, "");
        line!(self, "            fn version(&self) -> u32 {{");
        line!(self, "                VERSION");
        line!(self, "            }}");
        line!(self, "");
        line!(self, "            #[allow(unused_variables, clippy::redundant_closure)]");
        line!(self, "            fn call(");
        line!(self, "                &self,");
        line!(self, "                call: &rpc::Call<'_>,");
        line!(self, "                from: &mut xdr::Decoder<codec::SliceSource<'_>>,");
        line!(self, "                to: &mut xdr::Encoder<Vec<u8>>,");
        line!(self, "            ) -> Result<(), rpc::Fault> {{");
        line!(self, "                match call.procedure {{");
        for procedure in &version.procedures {
            self.dispatch(procedure);
        }
        line!(self, "                    _ => Err(rpc::Fault::NoProcedure),");
        line!(self, "                }}");
        line!(self, "            }}");
        line!(self, "        }}");
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
        line!(self, "            /// `{}`", procedure.names.xdr);
        line!(self, "            ///");
        line!(self, "            /// # Errors");
        line!(self, "            /// What the caller is told instead of a result.");
        if procedure.number == 0 {
            line!(self, "            #[allow(unused_variables)]");
            line!(self, "            {head} {{");
            line!(self, "                Ok(())");
            line!(self, "            }}");
        } else {
            line!(self, "            {head};");
        }
    }

    fn dispatch(&mut self, procedure: &Procedure) {
        line!(self, "                    {} => {{", constant(procedure));
        let mut passed = String::new();
        for (n, ty) in procedure.arguments.iter().enumerate() {
            let (name, read) = (argument(procedure, n), self.decoding(ty));
            let rust = self.ty(ty);
            line!(
                self,
                "                        let {name}: {rust} = rpc::argument(from.field(\"{name}\", |from| {read}))?;"
            );
            passed += &format!(", {name}");
        }
        line!(self, "                        rpc::no_more(from)?;");
        let call = format!("self.0.{}(call{passed})?", procedure.names.rust);
        match &procedure.result {
            Some(ty) => {
                let written = self.encoding(ty, "&result");
                line!(self, "                        let result = {call};");
                line!(self, "                        rpc::result({written})");
            }
            None => {
                line!(self, "                        {call};");
                line!(self, "                        Ok(())");
            }
        }
        line!(self, "                    }}");
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
