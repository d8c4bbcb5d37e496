//! A machine is data from a file: what no machine can be is named, and nothing makes the model panic or
//! answer with no number.

use fusewire_model::{Cache, Implementation, Machine, advise, machine::Error, parse, predict};
use serde_json::Value;

const MACHINE: &str = include_str!("machine.json");

fn machine(change: impl FnOnce(&mut Value)) -> Result<Machine, serde_json::Error> {
    let mut value = serde_json::from_str(MACHINE).unwrap();
    change(&mut value);
    serde_json::from_value(value)
}

/// Every number of the file, by the way to it.
fn numbers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(at),
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| numbers(value, format!("{at}/{key}"), found));
        }
        Value::Array(all) => {
            all.iter()
                .enumerate()
                .for_each(|(i, value)| numbers(value, format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

#[test]
fn no_number_of_a_machine_may_be_negative_or_huge() {
    let mut all = Vec::new();
    numbers(&serde_json::from_str(MACHINE).unwrap(), String::new(), &mut all);
    assert!(all.len() > 60, "{}", all.len());
    for at in &all {
        for absurd in [serde_json::json!(-1), serde_json::json!(-0.5), serde_json::json!(1e300)] {
            let changed = machine(|value| *value.pointer_mut(at).unwrap() = absurd.clone());
            // Whole numbers do not read as such what is none; all else is refused by its name.
            if let Ok(machine) = changed {
                let error = machine.check().expect_err(at);
                let name = at.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap();
                assert!(error.to_string().contains(name), "{at}: {error}");
            }
        }
    }
}

#[test]
fn versions_and_what_is_missing_are_named() {
    let other = machine(|value| value["version"] = 99.into()).unwrap();
    assert_eq!(other.check(), Err(Error::Version(99)));
    for (at, expected) in [
        ("/words", "words"),
        ("/words/0/stored", "stored"),
        ("/words/0/spills", "spills"),
        ("/words/0/runs", "runs"),
        ("/words/0/runs/0/starts", "starts"),
        ("/places", "places"),
        ("/levels/0/stages", "stages"),
        ("/levels/0/lengths", "lengths"),
        ("/levels/0/last_copy_cycles", "last_copy_cycles"),
        ("/levels/0/stages/1/alone_cycles", "alone_cycles"),
        ("/levels/0/stages/1/work_cycles", "work_cycles"),
        ("/levels/0/pairs/0/cycles", "cycles"),
    ] {
        let empty = machine(|value| *value.pointer_mut(at).unwrap() = Value::Array(vec![]));
        let error = empty.unwrap().check().expect_err(at);
        assert!(error.to_string().contains(expected), "{at}: {error}");
    }
    assert!(machine(|value| value["owner"] = 1.into()).is_err(), "an unknown field");
    let none = machine(|value| {
        value.as_object_mut().unwrap().remove("places");
    });
    assert!(none.unwrap_err().to_string().contains("places"));
    let inverted = machine(|value| value["places"][1]["bytes"] = 16.into()).unwrap();
    assert!(inverted.check().unwrap_err().to_string().contains("L2: bytes"));
    for (at, expected) in
        [("/levels/0/lengths/1", "lengths"), ("/words/0/lookups/1/table_bytes", "table_bytes")]
    {
        let inverted = machine(|value| *value.pointer_mut(at).unwrap() = 16.into()).unwrap();
        let error = inverted.check().expect_err(at);
        assert!(error.to_string().contains(expected), "{at}: {error}");
    }
}

/// Whatever the pipeline: an answer is a number, or an error.
#[test]
fn answers_are_numbers() {
    let machine = machine(|_| {}).unwrap();
    machine.check().unwrap();
    for pipeline in [
        "scalar64:state=16777216,instructions=16777216,block=64 * 64",
        "scalar64:instructions=0",
        "scalar64:block=61 > scalar64:block=59 > scalar64:block=53 > scalar64:block=47 > \
         scalar64:block=43 > scalar64:block=41 > scalar64:block=37",
        "scalar64:lookups=16777216,table=16777216,instructions=1",
        "avx2:state=1,reads",
        "copy * 64",
        "internet",
    ] {
        let pipeline = parse(pipeline, "portable").unwrap();
        for cache in [Cache::Warm, Cache::Cold] {
            for implementation in Implementation::ALL {
                for bytes in [1.0, 1e15] {
                    let said = predict(&machine, &pipeline, bytes, cache, implementation);
                    if let Ok(said) = said {
                        assert!(
                            said.cycles.is_finite() && said.cycles > 0.0,
                            "{pipeline:?} {said:?}"
                        );
                    }
                }
            }
        }
        let _ = advise(&machine, &pipeline, 1408.0);
    }
}
