//! Advice follows from what a machine is like.

use fusewire_model::{
    Cache, Description, Implementation, Machine, advise, choose, choose_transform,
};

fn machine() -> Machine {
    serde_json::from_str(include_str!("machine.json")).unwrap()
}

fn description(state: u32, count: usize) -> Description {
    let one = format!(
        r#"{{ "name": "f", "block_bytes": 8, "state_words": {state}, "instructions": {state} }}"#
    );
    let all = vec![one; count].join(",");
    let text = format!(r#"{{ "version": 1, "words": "scalar64", "functions": [{all}] }}"#);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn registers_decide_and_the_choice_is_the_fastest() {
    let machine = machine();
    for (state, count, integrate) in [(1, 3, true), (8, 4, false)] {
        let pipeline = description(state, count).pipeline(&machine).unwrap();
        let advice = advise(&machine, &pipeline, 4096.0).unwrap();
        assert_eq!(advice.warm.choice == Implementation::Integrated, integrate, "{advice:#?}");
        assert_eq!(advice.warm.gain > 1.0, integrate);
        let first = if integrate { "Integrate:" } else { "Do not integrate:" };
        assert!(advice.warm.why[0].starts_with(first), "{:?}", advice.warm.why);
        for (cache, comparison) in [(Cache::Warm, &advice.warm), (Cache::Cold, &advice.cold)] {
            assert_eq!(choose(&machine, &pipeline, 4096.0, cache), Ok(comparison.choice));
        }
    }
}

/// In the fixture aes-256-gcm is fastest sequential, and without a cipher integrated and blocked are
/// equal.
#[test]
fn a_data_pass_is_integrated_unless_another_is_faster_by_more_than_a_little() {
    let machine = machine();
    let choose = |cipher, level| choose_transform(&machine, cipher, 1, level, 1408.0);
    assert_eq!(choose("aes-256-gcm", "portable"), Some(Implementation::Sequential));
    assert_eq!(choose("none", "portable"), Some(Implementation::Integrated));
    assert_eq!(choose("none", "avx2"), None);
    assert_eq!(choose("rot13", "portable"), None);
}
