//! What open components hold, as the component that says which has it: a type with a variant for each row of the
//! table, and a function for each transfer syntax.

use super::encoding::Entry;
use super::model::*;
use super::write::{Writer, oid_contents};

impl Writer<'_> {
    /// What the tables of a definition need.
    pub fn tables(&mut self, id: DefId, encodings: &[&Entry]) {
        let model = self.model;
        let Shape::Struct(of) = &model.defs[id].shape else { return };
        for table in &of.tables {
            self.table_type(id, of, table);
            if encodings.is_empty() {
                continue;
            }
            writeln!(self);
            writeln!(self, "impl {}{} {{", model.defs[id].rust, self.generics(id, "'_"));
            for (n, encoding) in encodings.iter().enumerate() {
                if n > 0 {
                    writeln!(self);
                }
                self.table_function(of, table, encoding);
            }
            writeln!(self, "}}");
        }
    }

    fn table_type(&mut self, id: DefId, of: &Struct, table: &Table) {
        let (def, rust) = (&self.model.defs[id], &table.rust);
        let (open, by) = (&of.fields[table.open], &of.fields[table.by]);
        writeln!(self);
        writeln!(
            self,
            "/// What `{}.{}` holds, as `{}` says.",
            def.asn, open.names.asn, by.names.asn
        );
        writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
        writeln!(self, "pub enum {rust}<'a> {{");
        for (names, _, ty) in &table.rows {
            let ty = self.ty(ty, "'a");
            writeln!(self, "/// `{}`", names.asn);
            writeln!(self, "{}({ty}),", names.rust);
        }
        writeln!(self, "/// What the table has not.");
        writeln!(self, "Unknown(&'a types::Any<'a>),");
        writeln!(self, "}}");
    }

    fn table_function(&mut self, of: &Struct, table: &Table, syntax: &Entry) {
        let (super::encoding::Open { suffix, argument, call: (read, end) }, (generics, _)) =
            (&syntax.open, syntax.generics);
        let rust = &table.rust;
        let (open, by) = (&of.fields[table.open], &of.fields[table.by]);
        let name = open.names.rust.trim_start_matches("r#");
        let is_optional = open.presence == Presence::Optional;
        let result =
            if is_optional { format!("Option<{rust}<'b>>") } else { format!("{rust}<'b>") };
        writeln!(self, "/// Decodes `{}`.", open.names.asn);
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// It is no value of the type that `{}` says.", by.names.asn);
        writeln!(self, "pub fn decode_{name}{suffix}<'b{generics}>(");
        writeln!(self, "&'b self,");
        if !argument.is_empty() {
            writeln!(self, "{argument},");
        }
        writeln!(self, ") -> Result<{result}, codec::Error> {{");
        let (open_name, by_name) = (&open.names.rust, &by.names.rust);
        if is_optional {
            writeln!(self, "let Some(open) = &self.{open_name} else {{ return Ok(None) }};");
        } else {
            writeln!(self, "let open = &self.{open_name};");
        }
        let is_wide = matches!(self.leaf(&by.ty).kind, Kind::Plain("types::Integer", _));
        let by_oid = matches!(table.rows.first(), Some((_, Constant::Oid(_), _)));
        let key = match (by_oid, is_wide) {
            (true, _) => format!("self.{by_name}.as_contents()"),
            (_, true) => format!("self.{by_name}.to_i64()"),
            _ => format!("self.{by_name}"),
        };
        writeln!(self, "let value = match {key} {{");
        for (names, constant, _) in &table.rows {
            let pattern = match constant {
                Constant::Oid(arcs) => format!("{:?}", oid_contents(arcs)),
                Constant::Integer(n) if is_wide => format!("Some({n})"),
                Constant::Integer(n) => n.to_string(),
                _ => continue,
            };
            let variant = &names.rust;
            writeln!(self, "{pattern} => {read}open.as_bytes(){end}.map({rust}::{variant})?,");
        }
        writeln!(self, "_ => {rust}::Unknown(open),");
        writeln!(self, "}};");
        writeln!(self, "Ok({})", if is_optional { "Some(value)" } else { "value" });
        writeln!(self, "}}");
    }
}
