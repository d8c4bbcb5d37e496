//! An explanation in words: markdown, for people.

use std::fmt::Write;

use super::{Alternative, Cause, Decision, Explanation, Figure, Outcome};
use crate::language::value::Origin;

/// The way in which every generated end receives, whatever the data pass of sending is.
const RECEIVING: &str = "each message is opened first and decoded in a second pass";

impl Explanation {
    /// The same in words: what `fusewire generate --explain` prints and what `EXPLAIN.md` of a generated crate says.
    pub fn markdown(&self) -> String {
        let mut text = format!("# What was chosen for `{}`, and why\n\n", self.name);
        let file = file_name(&self.file);
        let digest = &self.digest;
        text += &format!("From `{file}`; digest of what both ends must have alike: `{digest}`.\n");
        if !self.preferred.is_empty() {
            text += &format!(
                "Where clauses leave a choice, it goes by {}.\n",
                self.preferred.join(", then ")
            );
        }
        for cause in &self.unmet {
            let _ = writeln!(text, "Not met: {}.", named(cause));
        }
        if !self.not_applied.is_empty() {
            text += "\n## Not applied\n\nGenerated ends keep what is promised without these:\n\n";
            figures(&mut text, &self.not_applied);
        }
        let title = match self.adus.len() {
            1 => "The association",
            _ => "What all types of ADU share",
        };
        let _ = write!(text, "\n## {title}\n\n");
        figures(&mut text, &self.figures);
        decisions(&mut text, &self.shared);
        for adu in &self.adus {
            let from = match adu.from.as_str() {
                "both" => "both ends".to_owned(),
                role => format!("`{role}`"),
            };
            let _ = write!(text, "\n## {}: `{}` from {from}\n\n", adu.name, adu.asn1);
            figures(&mut text, &adu.figures);
            let _ = writeln!(text, "- data pass when sending: {}", adu.execution);
            let _ = writeln!(text, "- data passes when receiving: {RECEIVING}");
            decisions(&mut text, &adu.decisions);
        }
        text
    }

    /// What was chosen, a line for each function of all and a line for each type: what `fusewire generate` prints.
    pub fn summary(&self) -> String {
        let chosen = |all: &[Decision]| -> String {
            let one = |of: &Decision| match of.mechanism {
                "none" => format!("no {}", of.function),
                mechanism => format!("{} {mechanism}", of.function),
            };
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("{}: {}\n", self.name, chosen(&self.shared));
        for adu in &self.adus {
            let _ = writeln!(text, "  {}: {}", adu.name, chosen(&adu.decisions));
        }
        for cause in &self.unmet {
            let _ = writeln!(text, "  not met: {}", named(cause));
        }
        text
    }
}

fn figures(text: &mut String, all: &[Figure]) {
    for figure in all {
        let _ = writeln!(text, "- {}: {}{}", figure.of, figure.says, by(&figure.causes));
    }
}

fn decisions(text: &mut String, all: &[Decision]) {
    for one in all {
        let with = one.with.as_ref().map_or(String::new(), |with| format!(" ({with})"));
        let by = by(&one.causes);
        let _ = writeln!(text, "- **{}: {}** {}{with}{by}", one.function, one.mechanism, one.does);
        // What the decision says is not said again of its only alternative, or of all alike.
        let is_alike = |other: &Alternative| other.causes == one.causes;
        for of in one
            .alternatives
            .chunk_by(|a, b| (a.outcome, &a.why, &a.causes) == (b.outcome, &b.why, &b.causes))
        {
            let Some(first) = of.first() else { continue };
            let names: Vec<_> = of.iter().map(|other| other.mechanism).collect();
            let verb = match first.outcome {
                Outcome::Breaks => "no,",
                Outcome::Costs => "would cost",
            };
            let by = if is_alike(first) { String::new() } else { names_of(&first.causes) };
            let _ = writeln!(text, "  - {}: {verb} {}{by}", names.join(", "), first.why);
        }
    }
}

/// The names of clauses; their places stand where what was chosen does.
fn names_of(causes: &[Cause]) -> String {
    let names: Vec<_> = causes.iter().map(|cause| format!("`{}`", cause.clause)).collect();
    if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) }
}

/// The clauses with their places and values.
fn by(causes: &[Cause]) -> String {
    let all: Vec<String> = causes.iter().map(named).collect();
    if all.is_empty() { String::new() } else { format!(" [{}]", all.join("; ")) }
}

fn named(cause: &Cause) -> String {
    let Cause { clause, value, origin, line, .. } = cause;
    // Without its folder: the same specification is explained alike wherever it lies.
    let file = file_name(&cause.file);
    match *origin {
        o if o == Origin::Written.as_str() => format!("{file}:{line} `{clause} = {value}`"),
        o if o == Origin::Profile.as_str() => {
            format!("{file}:{line} `{clause}`, {value} by its profile")
        }
        _ => format!("`{clause}` by default"),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
