//! What was not chosen is not in the program: by its symbols.

#[path = "../../symbols.rs"]
mod symbols;

#[test]
fn what_was_not_chosen_is_not_in_the_program() {
    let chosen = ["service5group"];
    let not_chosen =
        ["next_free", "take_next", "PeerCall", "call_peer_message", "Nada", "reed_solomon"];
    symbols::has(env!("CARGO_BIN_EXE_telemetry-example"), &chosen, &not_chosen);
}
