//! Who may talk to whom: keys, pins, insecure ciphers.

mod support;

use std::fs;

use support::World;

#[test]
fn a_server_that_is_not_known_is_refused_with_the_line_to_use() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&["--public"]);
    let done = world.run("bob", &["get", &server.url("a")]).failed(3, "is not known");
    assert!(!world.here("a").exists());
    let line = done.err.lines().find(|l| l.trim_start().starts_with("fusewire get")).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert!(words.contains(&"--trust") && words.contains(&server.fingerprint.as_str()), "{line}");
    world.run("bob", &words).ok();
    assert_eq!(fs::read_to_string(world.here("a")).unwrap(), "content");
    // It is remembered.
    world.run("bob", &["get", &server.url("a")]).ok();
    let done = world.run("bob", &["key", "show", "--hosts"]).ok();
    assert!(done.out.contains(&format!("{} {}", server.address, server.fingerprint)), "{done:?}");
    world.run("bob", &["key", "forget", &server.address]).ok();
    world.run("bob", &["key", "forget", &server.address]).failed(1, "was not known");
    world.run("bob", &["get", &server.url("a")]).failed(3, "is not known");
}

#[test]
fn a_changed_key_is_refused() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&["--public"]);
    let (address, url, old) = (server.address.clone(), server.url("a"), server.fingerprint.clone());
    world.run("bob", &["get", &url, "--trust", &old]).ok();
    server.kill();
    let new = world.run("alice", &["key", "rotate"]).ok().out.trim().to_string();
    assert_ne!(new, old);
    let _server = world.serve_again(&address, &["--public"]);
    for device in ["udp", "kernel-tcp"] {
        let done = world.run("bob", &["get", &url, "--device", device]);
        let done = done.failed(3, "has changed");
        assert!(done.err.contains(&format!("fusewire key forget {address}")), "{done:?}");
    }
    world.run("bob", &["get", &url, "--trust", &new]).failed(3, "has changed");
    world.run("bob", &["key", "forget", &address]).ok();
    world.run("bob", &["get", &url, "--trust", &new]).ok();
}

#[test]
fn a_client_that_is_not_allowed_is_refused() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let bob = world.run("bob", &["key", "show"]).ok().out.trim().to_string();
    let server = world.serve(&[]);
    for device in ["udp", "kernel-tcp"] {
        let args = ["get", &server.url("a"), "--trust", &server.fingerprint, "--device", device];
        let done = world.run("bob", &args).failed(3, &bob);
        assert!(!world.here("a").exists(), "{done:?}");
    }
    fs::write(world.path("allowed"), format!("# friends\n{bob} bob\n")).unwrap();
    let server = world.serve(&["--allow", world.path("allowed").to_str().unwrap()]);
    world.run("bob", &["get", &server.url("a"), "--trust", &server.fingerprint]).ok();
    assert!(world.here("a").exists());
}

#[test]
fn insecure_ciphers_are_asked_for_on_both_sides() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&[]);
    world.run("alice", &["get", &server.url("a"), "--cipher", "none"]).failed(3, "cipher");
    let server = world.serve(&["--cipher", "aes-256-gcm,none"]);
    let done = world.run("alice", &["get", &server.url("a"), "--json"]).ok();
    assert_eq!(done.summary()["cipher"], "aes-256-gcm");
    let done = world.run("alice", &["get", &server.url("a"), "--cipher", "none", "--json"]).ok();
    assert_eq!(done.summary()["cipher"], "none");
    assert!(done.err.contains("insecure"), "{done:?}");
}
