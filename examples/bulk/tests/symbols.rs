//! What was not chosen is not in the program: by its symbols.

#[path = "../../symbols.rs"]
mod symbols;

#[test]
fn what_was_not_chosen_is_not_in_the_program() {
    let chosen = ["recv_any", "next_free"];
    let not_chosen = [
        "PeerCall",
        "call_peer_message",
        "is_late",
        "Nada",
        "Playout",
        "reed_solomon",
        "service5group",
    ];
    symbols::has(env!("CARGO_BIN_EXE_bulk-example"), &chosen, &not_chosen);
}
