//! What the model as a whole decides: where a pointer must stand, what borrows, which names of types would
//! go in circles.

use super::model::*;
use super::write::Writer;
use crate::circles::components;

impl Model {
    /// Decides it. `messages` names the types that are also encoded by themselves.
    pub(super) fn finish(&mut self, messages: &[String]) {
        self.break_aliases();
        self.find_lists_of_themselves();
        self.wrap_whole_messages(messages);
        self.box_cycles();
        self.find_borrows();
        self.drop_defaults();
        self.find_blanks();
        self.find_fixed();
        self.find_inner_choices();
    }

    /// A default that cannot be written as an expression makes its component one that may be missing; a table
    /// needs a key that can be looked at.
    fn drop_defaults(&mut self) {
        for id in 0..self.defs.len() {
            let writer = Writer::new(self, self.defs[id].module);
            let Shape::Struct(of) = &self.defs[id].shape else { continue };
            let is_kept = |field: &Field| match &field.presence {
                Presence::Default(constant) => {
                    !matches!(field.ty.tagging, Tagging::Raw(_))
                        && writer.expression(constant, &field.ty).is_some()
                }
                _ => true,
            };
            let kept: Vec<bool> = of.fields.iter().map(is_kept).collect();
            let keyed: Vec<bool> = of.tables.iter().map(|t| self.has_key(of, t)).collect();
            let Shape::Struct(of) = &mut self.defs[id].shape else { continue };
            for (field, kept) in of.fields.iter_mut().zip(kept) {
                if !kept {
                    field.presence = Presence::Optional;
                }
            }
            let mut keyed = keyed.into_iter();
            of.tables.retain(|_| keyed.next().unwrap_or(false));
        }
    }

    fn has_key(&self, of: &Struct, table: &Table) -> bool {
        let mut ty = &of.fields[table.by].ty;
        while let Kind::Named(id) = &ty.kind {
            let Shape::Alias(next) = &self.defs[*id].shape else { return false };
            ty = next;
        }
        let by_oid = table.rows.iter().all(|r| matches!(r.1, Constant::Oid(_)));
        let by_number = table.rows.iter().all(|r| matches!(r.1, Constant::Integer(_)));
        match ty.kind {
            Kind::Plain("types::Oid", _) => by_oid,
            Kind::Plain("types::Integer", _) => by_number,
            Kind::Plain(path, _) => by_number && super::write::type_range(path).is_some(),
            _ => false,
        }
    }

    /// Another name that leads back to itself through others is a struct instead: Rust has no such names.
    fn break_aliases(&mut self) {
        let mut state = vec![0_u8; self.defs.len()];
        for start in 0..self.defs.len() {
            let mut path = Vec::new();
            let mut at = start;
            loop {
                if state[at] == 2 {
                    break;
                }
                if state[at] == 1 {
                    if let Shape::Alias(inner) = &self.defs[at].shape {
                        let (inner, names) = (inner.clone(), Vec::new());
                        let newtype = Newtype { inner, is_implicit: true, names, are_bits: false };
                        self.defs[at].shape = Shape::Newtype(newtype);
                    }
                    break;
                }
                state[at] = 1;
                path.push(at);
                let Shape::Alias(of) = &self.defs[at].shape else { break };
                let mut held = Vec::new();
                self.held(of, &mut held);
                let Some(&(next, _)) = held.first() else { break };
                at = next;
            }
            path.into_iter().for_each(|at| state[at] = 2);
        }
    }

    /// A type that no other is made of is encoded by itself, and so are `messages`. Where its constraints change its
    /// encoding, or are to be asked for, another name of a Rust type would lose them: it is a struct.
    fn wrap_whole_messages(&mut self, messages: &[String]) {
        let mut is_used = vec![false; self.defs.len()];
        for id in 0..self.defs.len() {
            let mut held = Vec::new();
            self.uses(id).into_iter().for_each(|part| self.held(part, &mut held));
            held.into_iter().for_each(|(to, _)| is_used[to] = true);
            if let Shape::Struct(of) = &self.defs[id].shape {
                let rows = of.tables.iter().flat_map(|t| &t.rows);
                let mut held = Vec::new();
                rows.for_each(|row| self.held(&row.2, &mut held));
                held.into_iter().for_each(|(to, _)| is_used[to] = true);
            }
        }
        for (id, is_used) in is_used.into_iter().enumerate() {
            let module = &self.modules[self.defs[id].module].asn;
            let is_named = |name: &String| super::is_called(name, module, &self.defs[id].asn);
            if is_used && !messages.iter().any(is_named) {
                continue;
            }
            let writer = Writer::new(self, self.defs[id].module);
            let Shape::Alias(of) = &self.defs[id].shape else { continue };
            if !writer.says_more(of) {
                continue;
            }
            let newtype = Newtype {
                inner: of.clone(),
                is_implicit: true,
                names: Vec::new(),
                are_bits: false,
            };
            self.defs[id].shape = Shape::Newtype(newtype);
        }
    }

    /// `T ::= SEQUENCE OF T`, and longer ways through names and lists that come back to where they began.
    fn find_lists_of_themselves(&mut self) {
        const NEW: usize = usize::MAX;
        let mut seen_from = vec![NEW; self.defs.len()];
        for start in 0..self.defs.len() {
            let mut at = start;
            while seen_from[at] == NEW {
                seen_from[at] = start;
                let Some(next) = self.only_component(at) else { break };
                at = next;
            }
            // Where this way met itself the circle begins, if it is one.
            if seen_from[at] == start && self.only_component(at).is_some() {
                let first = at;
                loop {
                    self.defs[at].is_list_of_itself = true;
                    at = self.only_component(at).unwrap_or(first);
                    if at == first {
                        break;
                    }
                }
            }
        }
    }

    /// What a definition holds that holds one thing.
    fn only_component(&self, id: DefId) -> Option<DefId> {
        let (Shape::Alias(part) | Shape::Newtype(Newtype { inner: part, .. })) =
            &self.defs[id].shape
        else {
            return None;
        };
        let mut held = Vec::new();
        self.held(part, &mut held);
        held.first().map(|h| h.0)
    }

    /// A component whose type holds the component's own stands behind a pointer.
    fn box_cycles(&mut self) {
        let components = self.components(false);
        let circles = self.components(true);
        for id in 0..self.defs.len() {
            let mut boxed = Vec::new();
            for (n, part) in self.uses(id).into_iter().enumerate() {
                let mut held = Vec::new();
                self.held(part, &mut held);
                if held.iter().any(|&(to, behind)| !behind && components[to] == components[id]) {
                    boxed.push(n);
                }
            }
            // A number below the count is of definitions that hold each other.
            self.defs[id].is_recursive = circles[id] < circles.len();
            let fields = match &mut self.defs[id].shape {
                Shape::Struct(s) => &mut s.fields,
                Shape::Choice(c) => &mut c.alternatives,
                _ => continue,
            };
            boxed.into_iter().for_each(|n| fields[n].ty.is_boxed = true);
        }
    }

    /// Which definitions hold each other: the numbers of their components. A definition that does not hold itself is
    /// alone in one; those get a number nobody shares, no less than how many definitions there are.
    fn components(&self, behind_too: bool) -> Vec<usize> {
        let edges: Vec<Vec<DefId>> = (0..self.defs.len())
            .map(|id| {
                let mut held = Vec::new();
                self.uses(id).into_iter().for_each(|p| self.held(p, &mut held));
                held.into_iter().filter(|h| behind_too || !h.1).map(|h| h.0).collect()
            })
            .collect();
        let count = edges.len();
        let mut found: Vec<usize> = (count..2 * count).collect();
        for (n, component) in components(&edges).into_iter().enumerate() {
            if component.len() > 1 || edges[component[0]].contains(&component[0]) {
                component.into_iter().for_each(|id| found[id] = n);
            }
        }
        found
    }

    /// What borrows: what holds something that does.
    fn find_borrows(&mut self) {
        let mut holders: Vec<Vec<DefId>> = vec![Vec::new(); self.defs.len()];
        let mut open = Vec::new();
        for id in 0..self.defs.len() {
            let mut borrows = matches!(&self.defs[id].shape, Shape::Choice(c) if c.is_extensible);
            for part in self.uses(id) {
                let mut held = Vec::new();
                self.held(part, &mut held);
                held.into_iter().for_each(|(to, _)| holders[to].push(id));
                borrows |= plain_borrows(part);
            }
            if borrows {
                self.defs[id].borrows = true;
                open.push(id);
            }
        }
        while let Some(id) = open.pop() {
            for &holder in &holders[id] {
                if !std::mem::replace(&mut self.defs[holder].borrows, true) {
                    open.push(holder);
                }
            }
        }
    }
}

fn plain_borrows(ty: &Use) -> bool {
    match &ty.kind {
        Kind::Plain(_, borrows) => *borrows,
        Kind::Named(_) => false,
        Kind::Vec(of) | Kind::SetOf(of) => plain_borrows(of),
    }
}
