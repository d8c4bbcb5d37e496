//! `fusewire devices` names what is there, for people and for machines.

mod support;

use support::World;

#[test]
fn every_interface_is_listed_with_what_it_gives() {
    let world = World::new();
    let lines = world.run("alice", &["devices", "--json"]).ok().lines();
    let named = |name: &str| lines.iter().find(|line| line["interface"] == name);
    let loopback = named("lo").expect("loopback");
    let devices: Vec<_> = loopback["offers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["device"].as_str().unwrap())
        .collect();
    assert_eq!(devices, ["packet", "xdp"]);
    assert!(loopback["auto"].is_null() && loopback["mtu"].as_u64().unwrap() > 1500);
    assert!(loopback["addresses"].as_array().unwrap().iter().any(|a| a == "127.0.0.1/8"));
    let made = lines.iter().find(|line| line["interface"].is_null()).expect("a TAP to be made");
    assert_eq!(made["offers"][0]["device"], "tap");
    for line in &lines {
        for offer in line["offers"].as_array().unwrap() {
            let missing = offer["missing"].as_array().unwrap();
            assert_eq!(offer["available"].as_bool().unwrap(), missing.is_empty(), "{offer}");
            assert!(!offer["why"].as_array().unwrap().is_empty(), "{offer}");
        }
    }
    let text = world.run("alice", &["devices", "lo"]).ok().out;
    assert!(text.contains("lo  up") && text.contains("loopback has no other end"), "{text}");
    let done = world.run("alice", &["devices", "fwnone"]);
    assert!(done.code == 2 && done.err.contains("no interface fwnone"), "{done:?}");
}
