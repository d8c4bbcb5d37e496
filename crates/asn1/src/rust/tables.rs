//! What open components hold, as the component that says which has it: a type with a variant for each row of the
//! table, and a function for each transfer syntax.

use super::Encoding;
use super::model::*;
use super::write::{Writer, line, oid_contents};

impl Writer<'_> {
    /// What the tables of a definition need.
    pub fn tables(&mut self, id: DefId, encodings: &[Encoding]) {
        let model = self.model;
        let Shape::Struct(of) = &model.defs[id].shape else { return };
        for table in &of.tables {
            self.table_type(id, of, table);
            let has = |e: Encoding| encodings.contains(&e);
            let mut functions = Vec::new();
            if has(Encoding::Ber) || has(Encoding::Der) {
                functions.push(("", "", "rules: ber::Rules", "ber::from_bytes(BYTES, rules)"));
            }
            if has(Encoding::Oer) {
                functions.push(("_oer", "", "rules: oer::Rules", "oer::from_bytes(BYTES, rules)"));
            }
            if has(Encoding::Xdr) {
                functions.push(("_xdr", "", "", "xdr::from_bytes(BYTES)"));
            }
            if has(Encoding::Lws) {
                let read = "lws::from_bytes::<WordT, _>(BYTES)";
                functions.push(("_lws", ", WordT: lws::Word", "", read));
            }
            if functions.is_empty() {
                continue;
            }
            line!(self);
            line!(self, "impl {}{} {{", model.defs[id].rust, self.generics(id, "'_"));
            for (n, function) in functions.into_iter().enumerate() {
                if n > 0 {
                    line!(self);
                }
                self.table_function(of, table, function);
            }
            line!(self, "}}");
        }
    }

    fn table_type(&mut self, id: DefId, of: &Struct, table: &Table) {
        let (def, rust) = (&self.model.defs[id], &table.rust);
        let (open, by) = (&of.fields[table.open], &of.fields[table.by]);
        line!(self);
        line!(self, "/// What `{}.{}` holds, as `{}` says.", def.asn, open.names.asn, by.names.asn);
        line!(self, "#[derive(Clone, Debug, PartialEq)]");
        line!(self, "pub enum {rust}<'a> {{");
        for (names, _, ty) in &table.rows {
            let ty = self.ty(ty, "'a");
            line!(self, "    /// `{}`", names.asn);
            line!(self, "    {}({ty}),", names.rust);
        }
        line!(self, "    /// What the table has not.");
        line!(self, "    Unknown(&'a types::Any<'a>),");
        line!(self, "}}");
    }

    fn table_function(
        &mut self,
        of: &Struct,
        table: &Table,
        (suffix, generics, argument, read): (&str, &str, &str, &str),
    ) {
        let rust = &table.rust;
        let (open, by) = (&of.fields[table.open], &of.fields[table.by]);
        let name = open.names.rust.trim_start_matches("r#");
        let is_optional = open.presence == Presence::Optional;
        let result =
            if is_optional { format!("Option<{rust}<'b>>") } else { format!("{rust}<'b>") };
        line!(self, "    /// Decodes `{}`.", open.names.asn);
        line!(self, "    ///");
        line!(self, "    /// # Errors");
        line!(self, "    /// It is no value of the type that `{}` says.", by.names.asn);
        line!(self, "    pub fn decode_{name}{suffix}<'b{generics}>(");
        line!(self, "        &'b self,");
        if !argument.is_empty() {
            line!(self, "        {argument},");
        }
        line!(self, "    ) -> Result<{result}, codec::Error> {{");
        let (open_name, by_name) = (&open.names.rust, &by.names.rust);
        if is_optional {
            line!(self, "        let Some(open) = &self.{open_name} else {{ return Ok(None) }};");
        } else {
            line!(self, "        let open = &self.{open_name};");
        }
        let is_wide = matches!(self.leaf(&by.ty).kind, Kind::Plain("types::Integer", _));
        let by_oid = matches!(table.rows.first(), Some((_, Constant::Oid(_), _)));
        let key = match (by_oid, is_wide) {
            (true, _) => format!("self.{by_name}.as_contents()"),
            (_, true) => format!("self.{by_name}.to_i64()"),
            _ => format!("self.{by_name}"),
        };
        line!(self, "        let value = match {key} {{");
        for (names, constant, _) in &table.rows {
            let pattern = match constant {
                Constant::Oid(arcs) => format!("{:?}", oid_contents(arcs)),
                Constant::Integer(n) if is_wide => format!("Some({n})"),
                Constant::Integer(n) => n.to_string(),
                _ => continue,
            };
            let (variant, read) = (&names.rust, read.replace("BYTES", "open.as_bytes()"));
            line!(self, "            {pattern} => {read}.map({rust}::{variant})?,");
        }
        line!(self, "            _ => {rust}::Unknown(open),");
        line!(self, "        }};");
        line!(self, "        Ok({})", if is_optional { "Some(value)" } else { "value" });
        line!(self, "    }}");
    }
}
