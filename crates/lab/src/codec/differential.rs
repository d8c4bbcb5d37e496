//! Whether the codecs of others make of the same values the same bytes as ours, and of our bytes the values again.
//!
//! Each seed's values begin with those at the edges. What a peer decodes it encodes again, so that bytes tell of values.
//! asn1c may choose another form for a REAL in BER: what it made is decoded by us, and the numbers are compared, by
//! their bits.

use super::ours::Typed;
use super::peers::Peers;
use super::values::{Values, wrong};
use crate::{Error, Result};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::{oer, xdr};
use serde::Serialize;
use std::path::Path;

/// What was compared of one codec and type, in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Whose, and which encoding.
    pub codec: String,
    /// `ints`, `ints32`, `reals`, `strings` or `mpdus`.
    #[serde(rename = "type")]
    pub of: String,
    /// `encode`: it made our bytes of the values; `decode`: it read ours, and made them again of what it read.
    pub direction: &'static str,
    /// Encodings that were the same.
    pub encodings: usize,
    /// The values in them.
    pub elements: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// Compares with every peer that has an encoding of ours, for the values of each seed.
///
/// # Errors
/// There is a difference (which codec, type, direction and seed, and the offset), or the peers fail.
pub fn agree(program: &Path, seeds: std::ops::Range<u64>) -> Result<Vec<Agreement>> {
    let mut agreements: Vec<Agreement> = Vec::new();
    let mut cases = None;
    for seed in seeds {
        let values = Values::at_the_edges(seed);
        let typed = Typed::of(&values)?;
        let mut peers = Peers::start(program, &values, &typed)?;
        let names = peers
            .cases
            .iter()
            .map(|(codec, of, direction, ..)| format!("{codec} {of} {direction}"));
        let names: Vec<String> = names.collect();
        if let Some(missing) =
            cases.get_or_insert_with(|| names.clone()).iter().find(|name| !names.contains(name))
        {
            let what = format!("it is missing for seed {seed}: its peer refuses the values");
            return Err(Error::Wrong { method: missing.clone(), what });
        }
        for (which, (codec, of, direction, elements, _)) in peers.cases.clone().iter().enumerate() {
            let Some(forms) = forms(&typed, codec, of) else { continue };
            let forms = forms.map_err(|e| wrong(codec, &e))?;
            let given = if *direction == "decode" { &forms[..] } else { &forms[..1] };
            for form in given {
                let made = match *direction {
                    "decode" => peers.made_of(which, form)?,
                    _ => peers.made(which)?,
                };
                let found = made.and_then(|bytes| same(of, &forms[0], &bytes));
                found.map_err(|what| Error::Wrong {
                    method: codec.clone(),
                    what: format!("{of}, {direction}, seed {seed}: {what}"),
                })?;
            }
            let is = |a: &&mut Agreement| (&a.codec, &a.of, a.direction) == (codec, of, *direction);
            let bytes = given.iter().map(Vec::len).sum::<usize>();
            let (encodings, elements) = (given.len(), elements * given.len());
            match agreements.iter_mut().find(is) {
                Some(sum) => {
                    sum.encodings += encodings;
                    sum.elements += elements;
                    sum.bytes += bytes;
                }
                None => {
                    let (codec, of) = (codec.clone(), of.clone());
                    agreements.push(Agreement { codec, of, direction, encodings, elements, bytes });
                }
            }
        }
    }
    Ok(agreements)
}

/// Nothing, or where `theirs` differs.
fn same(of: &str, ours: &[u8], theirs: &[u8]) -> std::result::Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    if of == "reals"
        && let Ok(numbers) = ber::from_bytes::<Vec<f64>>(ours, Rules::Ber)
    {
        let found = ber::from_bytes::<Vec<f64>>(theirs, Rules::Ber).map_err(|e| e.to_string())?;
        let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits();
        return match numbers.iter().zip(&found).position(differs) {
            Some(at) => {
                Err(format!("REAL {at} is {:e} for us, {:e} for it", numbers[at], found[at]))
            }
            None if numbers.len() != found.len() => {
                Err(format!("{} REALs for us, {} for it", numbers.len(), found.len()))
            }
            None => Ok(()),
        };
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let near = |bytes: &[u8]| -> String {
        bytes[at..].iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    };
    Err(format!(
        "other bytes at offset {at}: {} for us (of {}), {} for it (of {})",
        near(ours),
        ours.len(),
        near(theirs),
        theirs.len()
    ))
}

type Forms = std::result::Result<Vec<Vec<u8>>, fusewire_codec::Error>;

/// Our encodings for what a peer calls its codec and type: that which it makes, and others that it reads. Nothing
/// where it has an encoding of its own.
fn forms(typed: &Typed<'_>, codec: &str, of: &str) -> Option<Forms> {
    let rules = match codec {
        "rasn DER" | "der" => Some(Rules::Der),
        // asn1c writes DER, and reads BER.
        "rasn BER" | "asn1c" => Some(Rules::Ber),
        _ => None,
    };
    Some(match (rules, codec, of) {
        (Some(rules), _, "ints") => tagged(typed.ints, rules),
        (Some(rules), _, "reals") => tagged(typed.reals, rules),
        (Some(rules), _, "strings") => tagged(&typed.strings, rules),
        (Some(rules), _, "mpdus") => tagged(&typed.mpdus, rules),
        (_, "rasn OER", "ints") => oer::to_vec(typed.ints).map(|bytes| vec![bytes]),
        (_, "rasn OER", "strings") => oer::to_vec(&typed.strings).map(|bytes| vec![bytes]),
        (_, "libtirpc XDR", "ints32") => array(|to| to.array(&typed.narrow, u32::MAX)),
        (_, "libtirpc XDR", "reals") => array(|to| to.array(typed.reals, u32::MAX)),
        (_, "libtirpc XDR", "strings") => array(|to| {
            to.array_of(&typed.strings, u32::MAX, |to, text| to.opaque(text.as_bytes(), u32::MAX))
        }),
        _ => return None,
    })
}

/// In XDR.
fn array(
    write: impl FnOnce(&mut xdr::Encoder<Vec<u8>>) -> std::result::Result<(), fusewire_codec::Error>,
) -> Forms {
    let mut encoder = xdr::Encoder::new(Vec::new());
    write(&mut encoder)?;
    Ok(vec![encoder.into_inner()])
}

/// In the definite form; in BER in the indefinite one, too.
fn tagged<T: ber::Encode>(value: &T, rules: Rules) -> Forms {
    let definite = ber::to_vec(value, rules)?;
    if rules == Rules::Der {
        return Ok(vec![definite]);
    }
    // Four bytes more for each constructed value, which has two at least.
    let mut room = vec![0; 3 * definite.len() + 8];
    let mut encoder = ber::Encoder::new(&mut room, rules).indefinite();
    value.encode(&mut encoder)?;
    let start = encoder.start();
    Ok(vec![definite, room.split_off(start)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named_by_its_place() {
        assert_eq!(same("ints", &[1, 2], &[1, 2]), Ok(()));
        let found = same("ints", &[1, 2, 3], &[1, 9]).unwrap_err();
        assert_eq!(found, "other bytes at offset 1: 0203 for us (of 3), 09 for it (of 2)");
        let shorter = same("ints", &[1, 2], &[1]).unwrap_err();
        assert_eq!(shorter, "other bytes at offset 1: 02 for us (of 2),  for it (of 1)");
    }

    /// Another form of a REAL is the same, another REAL is not; neither is one that is missing.
    #[test]
    fn reals_are_compared_by_their_numbers() {
        let one = [0x30, 5, 9, 3, 0x80, 0, 1];
        assert_eq!(same("reals", &one, &[0x30, 5, 9, 3, 0x80, 0xff, 2]), Ok(()));
        let other = same("reals", &one, &[0x30, 5, 9, 3, 0x80, 0, 3]).unwrap_err();
        assert_eq!(other, "REAL 0 is 1e0 for us, 3e0 for it");
        assert_eq!(same("reals", &one, &[0x30, 0]).unwrap_err(), "1 REALs for us, 0 for it");
    }

    /// All types that peers share with us have an encoding, also those of empty lists.
    #[test]
    fn there_are_forms_of_what_peers_have() {
        for seed in 0..3 {
            let values = Values::at_the_edges(seed);
            let typed = Typed::of(&values).unwrap();
            for (codec, of, forms) in [
                ("rasn BER", "ints", 2),
                ("rasn DER", "mpdus", 1),
                ("asn1c", "reals", 2),
                ("rasn OER", "strings", 1),
                ("libtirpc XDR", "ints32", 1),
            ] {
                let found = super::forms(&typed, codec, of).unwrap().unwrap();
                assert_eq!(found.len(), forms, "{codec} {of}");
            }
            assert!(super::forms(&typed, "prost", "ints").is_none());
        }
    }
}
