//! What was not chosen is not in the program: by its symbols.

#[path = "../../symbols.rs"]
mod symbols;

#[test]
fn what_was_not_chosen_is_not_in_the_program() {
    let chosen = ["Nada", "Playout", "reed_solomon"];
    let not_chosen = ["next_free", "take_next", "PeerCall", "call_peer_message", "service5group"];
    symbols::has(env!("CARGO_BIN_EXE_conference-example"), &chosen, &not_chosen);
}
