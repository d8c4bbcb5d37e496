//! Pipelines as people write them.
//!
//! ```text
//! swap32 > pes > internet                            stages of `kernels`, by name
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
        match one.split_once(':') {
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
        (true, _) => Ok(Pipeline::Stages { names, level: level.to_owned() }),
        (false, true) => Ok(Pipeline::Functions(functions)),
        (false, false) => Err(wrong(text, "stages and described functions cannot be mixed")),
    }
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
        let stages = parse("swap32 ▸ pes > internet", "avx2").unwrap();
        assert!(
            matches!(stages, Pipeline::Stages { names, .. } if names == ["swap32", "pes", "internet"])
        );
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
