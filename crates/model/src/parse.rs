//! Pipelines as people write them.
//!
//! ```text
//! swap32 > cxor > internet                           stages of `kernels`, by name
//! swap32 > aes-256-gcm > internet > store            the data pass of a record, sent
//! internet > aes-256-gcm > swap32                    the same, received; without `swap32` words are not swapped
//! scalar64:state=4,instructions=10,block=2 * 3       a described function, three times
//! avx2:state=2,instructions=8 > avx2:state=1,reads   two functions, the second of which only reads
//! ```

use crate::pipeline::{Function, Pipeline};

/// What is wrong with a written pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}`: {why}")]
pub struct ParseError {
    /// The part that is meant.
    pub part: String,
    /// What is wrong with it, and what was expected.
    pub why: String,
}

/// More than anybody means.
const FUNCTIONS_MAX: usize = 64;
const VALUE_MAX: u32 = 1 << 24;

/// Reads a pipeline; stages are meant at the CPU level `level`.
///
/// # Errors
/// When a part cannot be read, or stages and described functions are mixed.
pub fn parse(text: &str, level: &str) -> Result<Pipeline, ParseError> {
    let wrong =
        |part: &str, why: &str| ParseError { part: part.trim().to_owned(), why: why.to_owned() };
    let (mut functions, mut names) = (Vec::new(), Vec::new());
    for part in text.split(['>', '▸']) {
        let (one, count) = match part.rsplit_once('*') {
            Some((one, count)) => {
                let count = count.trim().parse().ok().filter(|n| (1..=FUNCTIONS_MAX).contains(n));
                (one, count.ok_or_else(|| wrong(part, "after `*` comes a number from 1 to 64"))?)
            }
            None => (part, 1),
        };
        let one = one.trim();
        if one.is_empty() {
            return Err(wrong(text, "between `>` stands a stage's name or a described function"));
        }
        match one.split_once(':').filter(|(words, _)| is_words(words.trim())) {
            Some((words, rest)) => {
                let function = function(words.trim(), rest).map_err(|why| wrong(one, &why))?;
                functions.extend(std::iter::repeat_n(function, count));
            }
            None => names.extend(std::iter::repeat_n(one.to_owned(), count)),
        }
        if functions.len().max(names.len()) > FUNCTIONS_MAX {
            return Err(wrong(part, "that makes more than 64 functions"));
        }
    }
    match (functions.is_empty(), names.is_empty()) {
        (true, _) => Ok(stages(names, level)),
        (false, true) => Ok(Pipeline::Functions(functions)),
        (false, false) => Err(wrong(text, "stages and described functions cannot be mixed")),
    }
}

/// Whether a part before a colon is a kind of words. Ciphers have a colon before the number of their rounds.
fn is_words(name: &str) -> bool {
    !name.contains('-')
}

/// Stages of `kernels` that are no ciphers.
const NO_CIPHERS: [&str; 7] = ["copy", "swap32", "swap64", "internet", "cxor", "iso-tp4", "crc32c"];

/// A data pass if the names are those of one, or else single stages. Every loop ends with a store, which may be written.
fn stages(mut names: Vec<String>, level: &str) -> Pipeline {
    if names.len() > 1 && names.last().is_some_and(|name| name == "store") {
        names.pop();
    }
    let level = level.to_owned();
    let names_of = names.iter().map(String::as_str).collect::<Vec<_>>();
    let (cipher, swaps, receives) = match names_of[..] {
        ["swap32", cipher, "internet"] => (cipher, true, false),
        ["internet", cipher, "swap32"] => (cipher, true, true),
        [cipher, "internet"] => (cipher, false, false),
        ["internet", cipher] => (cipher, false, true),
        _ => return Pipeline::Stages { names, level },
    };
    if NO_CIPHERS.contains(&cipher) {
        return Pipeline::Stages { names, level };
    }
    Pipeline::DataPass { cipher: cipher.to_owned(), swaps, receives, level }
}

fn function(words: &str, text: &str) -> Result<Function, String> {
    let mut function = Function::new(words, 0, 0, 1);
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = match item.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (item, None),
        };
        let number = || {
            let value = value.and_then(|value| value.parse().ok()).filter(|n| *n <= VALUE_MAX);
            value.ok_or_else(|| format!("{key} wants a number up to {VALUE_MAX}, as in {key}=4"))
        };
        match key {
            "state" => function.state_words = number()?,
            "instructions" => function.instructions = number()?,
            "block" => function.block_words = number()?,
            "lookups" => function.lookups = number()?,
            "table" => function.table_bytes = number()?,
            "reads" if value.is_none() => function.writes = false,
            _ => {
                let known = "state, instructions, block, lookups, table (bytes), reads";
                return Err(format!("no parameter `{item}`; there are {known}"));
            }
        }
    }
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_stages_are_read() {
        let Ok(Pipeline::Functions(functions)) = parse(
            "scalar64: state=4, instructions=10, block=2 *3 > scalar64:state=1,reads",
            "avx2",
        ) else {
            panic!("functions");
        };
        assert_eq!(functions.len(), 4);
        assert_eq!((functions[2].state_words, functions[2].block_words), (4, 2));
        assert!(functions[0].writes && !functions[3].writes);
        let again = functions[0].to_string();
        assert_eq!(parse(&again, "avx2"), Ok(Pipeline::Functions(vec![functions[0].clone()])));
        let stages = parse("swap32 ▸ cxor > internet", "avx2").unwrap();
        assert!(
            matches!(stages, Pipeline::Stages { names, .. } if names == ["swap32", "cxor", "internet"])
        );
    }

    #[test]
    fn data_passes_are_known_by_their_order() {
        let pass = |cipher: &str, swaps, receives| Pipeline::DataPass {
            cipher: cipher.to_owned(),
            swaps,
            receives,
            level: "avx2".to_owned(),
        };
        for (text, expected) in [
            ("swap32 ▸ aes-256-gcm ▸ internet ▸ store", pass("aes-256-gcm", true, false)),
            ("internet > aegis-128l > swap32", pass("aegis-128l", true, true)),
            ("swap32 > safer-k64:6 > internet", pass("safer-k64:6", true, false)),
            ("pes > internet", pass("pes", false, false)),
        ] {
            assert_eq!(parse(text, "avx2"), Ok(expected), "{text}");
        }
        for text in ["copy ▸ internet ▸ store", "swap32 > pes > cxor", "pes > cxor > internet"]
        {
            assert!(matches!(parse(text, "avx2"), Ok(Pipeline::Stages { .. })), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, part) in [
            ("", ""),
            ("swap32 > > pes", "swap32 > > pes"),
            ("scalar64:states=4", "scalar64:states=4"),
            ("scalar64:state=-1", "scalar64:state=-1"),
            ("scalar64:state=99999999999", "scalar64:state=99999999999"),
            ("pes * 0", "pes * 0"),
            ("pes * 40 > pes * 40", "pes * 40"),
            ("pes > scalar64:state=1", "pes > scalar64:state=1"),
        ] {
            assert_eq!(parse(text, "avx2").unwrap_err().part, part, "{text}");
        }
    }
}
