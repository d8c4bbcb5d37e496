//! Who may talk to whom: keys, pins, insecure ciphers.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::{Done, World, bytes, wait_for_part};

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

/// Waits until the server does what is asked of it.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_list_is_read_again_at_sighup() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    fs::write(world.served("big"), bytes(24 << 20, 1)).unwrap();
    let key = |user| world.run(user, &["key", "show"]).ok().out.trim().to_string();
    let (bob, carol) = (key("bob"), key("carol"));
    let allowed = world.path("allowed");
    fs::write(&allowed, format!("{bob} bob\n")).unwrap();
    let server = world.serve(&["--allow", allowed.to_str().unwrap()]);
    let (url, trust) = (server.url("a"), server.fingerprint.clone());
    let get = |user: &str, device: &str| {
        let args = ["get", &url, "--trust", &trust, "--device", device, "-o", "/dev/null"];
        world.run(user, &args)
    };
    for device in ["udp", "kernel-tcp"] {
        get("bob", device).ok();
        get("carol", device).failed(3, &carol);
    }
    // In the middle of what bob gets, his key goes and carol's comes.
    let big = server.url("big");
    let args = ["get", &big, "--trust", &trust, "--rate", "4M", "--device"];
    let going = |device: &str| {
        let child = world.command("bob", &[&args[..], &[device]].concat()).spawn().unwrap();
        wait_for_part(&world.path("here"), 1 << 20);
        child
    };
    for device in ["udp", "kernel-tcp"] {
        let child = going(device);
        fs::write(&allowed, format!("{carol} carol\n")).unwrap();
        server.reload();
        Done::of(child).failed(4, "does not serve this client");
        get("bob", device).failed(3, &bob);
        get("carol", device).ok();
        // What cannot be read changes nothing.
        fs::write(&allowed, "nonsense\n").unwrap();
        server.reload();
        get("carol", device).ok();
        fs::write(&allowed, format!("{bob} bob\n")).unwrap();
        server.reload();
        until("bob is served again", || get("bob", device).code == 0);
        // What bob has of it would go on.
        fs::remove_dir_all(world.path("here")).unwrap();
        fs::create_dir(world.path("here")).unwrap();
    }
    let done = server.stop();
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("line 1") && done.err.contains("has not changed"), "{done:?}");
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

#[test]
fn headers_are_protected_where_it_is_asked_for_or_nothing_is_moved() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&[]);
    let url = server.url("a");
    let got = |options: &[&str]| {
        let done = world.run("alice", &[&["get", &url, "--json"][..], options].concat()).ok();
        done.summary()["record_padding"].clone()
    };
    assert!(got(&[]).is_null());
    for device in ["udp", "kernel-tcp", "shm"] {
        let options = ["--device", device, "--header-protection"];
        assert_eq!(got(&options), 1, "{device}");
        assert_eq!(got(&["--device", device, "--record-padding", "256"]), 256, "{device}");
        assert_eq!(fs::read_to_string(world.here("a")).unwrap(), "content");
    }
    let bad = ["get", &url, "--record-padding", "100"];
    world.run("alice", &bad).failed(2, "a power of two");
    let none = ["get", &url, "--header-protection", "--cipher", "none"];
    world.run("alice", &none).failed(1, "a cipher that authenticates");
    let server = world.serve(&["--header-protection"]);
    let url = server.url("a");
    world.run("alice", &["get", &url]).failed(3, "header protection");
    world.run("alice", &["get", &url, "--header-protection"]).ok();
}
