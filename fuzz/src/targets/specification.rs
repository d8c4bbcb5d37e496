//! Specifications of what an application requires: what is said of them lies in them, and of what is right there is a choice
//! that is explained, or a refusal that names clauses which are there. Of what was chosen there is a crate, or why there is none.

use fusewire_asn1::Source;
use fusewire_generate::choice::choose;
use fusewire_generate::language::check;
use fusewire_generate::report::report;
use fusewire_generate::rust::{Against, Error, crate_of};

/// Of more types than these nothing is chosen: it takes longer, and nothing else.
const TYPES_MAX: usize = 3;

/// Runs one input: a specification, and behind each zero byte a file of ASN.1.
pub fn run(data: &[u8]) {
    let mut parts = data.split(|&b| b == 0);
    let specification = Source::new("input.toml", parts.next().unwrap_or_default());
    let modules = parts.take(4).map(|bytes| Source::new("input.asn1", bytes)).collect();
    let checked = check(specification, modules);
    for diagnostic in &checked.diagnostics {
        let source = &checked.sources[diagnostic.file];
        assert!(diagnostic.span.end as usize <= source.text().len());
        let shown = diagnostic.display(source).to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "a control character");
    }
    if !checked.is_ok() || checked.specification.adus.len() > TYPES_MAX {
        assert!(!report(&checked, None).ok);
        return;
    }
    let chosen = choose(&checked.specification, None);
    let said = report(&checked, Some(&chosen));
    assert_eq!((said.ok, said.refused.is_none()), (chosen.is_ok(), chosen.is_ok()));
    match chosen {
        Ok(choice) => {
            let again = choose(&checked.specification, None).expect("it could be had before");
            assert_eq!(choice.plan, again.plan, "another plan of the same");
            let explanation = said.explanation.expect("what could be had is explained");
            assert!(explanation.markdown().starts_with("# What was chosen"));
            assert_eq!(explanation.adus.len(), choice.plan.adus.len());
            match crate_of(&checked, &choice, &Against::Workspace) {
                Ok(files) => assert!(files.iter().all(|file| !file.text.is_empty())),
                Err(Error::NotApplied(lines)) => {
                    assert!(!lines.is_empty() && lines.iter().all(|line| !line.is_empty()));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(refusal) => {
            let clauses = checked.specification.clauses();
            let is_there = |name: &str| clauses.iter().any(|c| c.clause().name == name);
            assert!(refusal.clauses.iter().all(|c| is_there(&c.clause.name)));
            let all = refusal.clauses.len() + refusal.defaults.len();
            assert!(all > 0, "a refusal for nothing: {}", refusal.why);
            assert!(said.refused.expect("it says so").text("input.toml").contains("refused"));
        }
    }
}

/// The examples, each with its module.
pub fn seeds() -> Vec<Vec<u8>> {
    let examples: [(&[u8], &[u8]); 4] = [
        (
            include_bytes!("../../../examples/bulk/bulk.toml"),
            include_bytes!("../../../examples/bulk/Bulk.asn1"),
        ),
        (
            include_bytes!("../../../examples/rpc/rpc.toml"),
            include_bytes!("../../../examples/rpc/Kv.asn1"),
        ),
        (
            include_bytes!("../../../examples/conference/conference.toml"),
            include_bytes!("../../../examples/conference/Conf.asn1"),
        ),
        (
            include_bytes!("../../../examples/telemetry/telemetry.toml"),
            include_bytes!("../../../examples/telemetry/Plant.asn1"),
        ),
    ];
    let whole = examples.map(|(specification, module)| [specification, b"\0", module].concat());
    let refused = whole.clone().map(|text| replaced(&text, b"rtt_ms = [", b"rtt_ms = [9"));
    let wrong = whole.clone().map(|text| replaced(&text, b"order", b"oder"));
    whole.into_iter().chain(refused).chain(wrong).collect()
}

/// A text, the first of something in it replaced.
fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = text.windows(from.len()).position(|part| part == from).unwrap_or(0);
    [&text[..at], to, &text[at + from.len()..]].concat()
}
