//! What was not chosen is not in the program: by its symbols.

#[path = "../../symbols.rs"]
mod symbols;

#[test]
fn what_was_not_chosen_is_not_in_the_program() {
    let chosen = ["PeerCall"];
    let not_chosen = [
        "next_free",
        "take_next",
        "send_message_timeout",
        "Nada",
        "Playout",
        "reed_solomon",
        "service5group",
    ];
    symbols::has(env!("CARGO_BIN_EXE_rpc-example"), &chosen, &not_chosen);
}
