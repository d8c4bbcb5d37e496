//! Who may talk to whom: keys, pins, insecure ciphers.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
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
        // The server's own key is served with every list.
        get("alice", device).ok();
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

/// A host with a user who types: the test's own namespace, or a peer's.
struct Host<'a> {
    world: &'a World,
    user: &'a str,
    peer: Option<&'a Peer>,
}

impl Host<'_> {
    fn shell(&self, line: &str) -> Command {
        let mut shell = match self.peer {
            Some(peer) => peer.command("sh"),
            None => Command::new("sh"),
        };
        let program = Path::new(env!("CARGO_BIN_EXE_fusewire")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        shell.args(["-c", line]).env("PATH", format!("{}:{path}", program.display()));
        let home = self.world.path(self.user);
        fs::create_dir_all(&home).unwrap();
        shell.env("XDG_STATE_HOME", home.join("state")).env_remove("RUST_LOG").current_dir(home);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// Types a command that ends.
    fn types(&self, line: &str) -> Done {
        Done::of(self.shell(line).spawn().unwrap())
    }

    /// Types a command that goes on, and waits until it has printed its fingerprint.
    fn starts(&self, line: &str) -> Running {
        let log = self.world.path(&format!("{}.log", self.user));
        let mut shell = self.shell(&format!("exec {line}"));
        shell.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        let mut running = Running(shell.spawn().unwrap());
        until("the server has started", || {
            let text = fs::read_to_string(&log).unwrap();
            assert!(running.0.try_wait().unwrap().is_none(), "{line}: {text}");
            text.lines().any(|line| line.starts_with("fingerprint")) && text.ends_with('\n')
        });
        running
    }

    /// The text that the last started command has printed.
    fn log(&self) -> String {
        fs::read_to_string(self.world.path(&format!("{}.log", self.user))).unwrap()
    }
}

/// A command that goes on; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two hosts with a link between them, which is also the way to groups.
fn two_hosts() -> Peer {
    let peer = Peer::new();
    peer.join([
        ("clA0", &["10.77.0.1/24", "fe80::1/64"]),
        ("clB0", &["10.77.0.2/24", "fe80::2/64"]),
    ]);
    sh("ip route add default dev clA0");
    peer.sh("ip route add default dev clB0");
    peer
}

/// The commands that a message shows: its lines that are set in.
fn commands(text: &str) -> Vec<&str> {
    let shown = text.lines().filter_map(|line| line.strip_prefix("  "));
    shown.filter(|line| !line.starts_with("fw1:")).collect()
}

#[test]
fn the_readme_quick_start_works_as_typed_between_two_hosts() {
    let name = "the_readme_quick_start_works_as_typed_between_two_hosts";
    in_namespace(name, Need::Namespace, "", || {
        let (world, peer) = (World::new(), two_hosts());
        let server = Host { world: &world, user: "server", peer: None };
        let client = Host { world: &world, user: "client", peer: Some(&peer) };
        let (there, here) = (world.path("server"), world.path("client"));
        fs::create_dir_all(there.join("DIR")).unwrap();
        fs::create_dir(&here).unwrap();
        for file in [there.join("DIR/path"), there.join("image.iso"), here.join("file")] {
            fs::write(file, "content").unwrap();
        }
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
        let readme = fs::read_to_string(readme).unwrap();
        let block = readme.split("\n## Use\n").nth(1).and_then(|rest| rest.split("```").nth(1));
        // Descriptors and credentials that an earlier read left.
        let mut keys = (String::new(), String::new());
        let mut running: Vec<Running> = Vec::new();
        let mut typed = 0;
        for line in block.unwrap().lines().filter(|line| !line.is_empty()) {
            let (host, command) = line.split_once("$ ").expect("host$ command");
            let command = command.split(" #").next().unwrap().trim_end();
            let command = command.replace("fusewire://server/", "fusewire://10.77.0.1/");
            let command = command.replace("CLIENT", &keys.0).replace("SERVER", &keys.1);
            let host = if host == "server" { &server } else { &client };
            typed += 1;
            if ["serve ", "cast "].iter().any(|verb| command.contains(verb)) {
                running.push(host.starts(&command));
                let log = host.log();
                let reached = log.contains("fusewire://10.77.0.1:9293/");
                assert_eq!(reached, command.contains("serve"), "{log}");
                keys.1 = log.split_whitespace().find(|w| w.starts_with("fw1:")).unwrap().into();
                continue;
            }
            let done = host.types(&command).ok();
            if command == "fusewire key show" {
                keys.0 = done.out.trim().into();
            }
        }
        assert!(typed >= 7, "{typed} lines");
        assert_eq!(fs::read_to_string(here.join("there")).unwrap(), "content");
        assert_eq!(fs::read_to_string(there.join("DIR/file")).unwrap(), "content");
        assert_eq!(fs::read_to_string(here.join("images/image.iso")).unwrap(), "content");
        let mut cast = running.pop().unwrap();
        until("the cast ends", || cast.0.try_wait().unwrap().is_some());
    });
}

#[test]
fn each_refusal_shows_the_commands_that_lead_on() {
    let name = "each_refusal_shows_the_commands_that_lead_on";
    in_namespace(name, Need::Namespace, "", || {
        let (world, peer) = (World::new(), two_hosts());
        let server = Host { world: &world, user: "server", peer: None };
        let client = Host { world: &world, user: "client", peer: Some(&peer) };
        fs::create_dir_all(world.path("server/DIR")).unwrap();
        fs::write(world.path("server/DIR/path"), "content").unwrap();
        let get = "fusewire get fusewire://10.77.0.1/path";
        // Loopback only: both sides say so.
        let running = server.starts("fusewire serve DIR");
        assert!(server.log().contains("(this host only)"), "{}", server.log());
        let done = client.types(get).failed(4, "On 10.77.0.1, run");
        let log = server.log();
        let (shown, lead_on) = (commands(&log), commands(&done.err));
        assert_eq!((shown.len(), lead_on.len()), (1, 1), "{log}{done:?}");
        assert_eq!(shown, lead_on);
        drop(running);
        // A client that is not allowed.
        let running = server.starts(shown[0]);
        let done = client.types(get).failed(3, "On 10.77.0.1, add the key");
        let lead_on = commands(&done.err);
        assert_eq!(lead_on.len(), 2, "{done:?}");
        drop(running);
        server.types(lead_on[0]).ok();
        let _running = server.starts(lead_on[1]);
        assert!(server.log().contains("your own key and 1 other"), "{}", server.log());
        // A server that is not known.
        let done = client.types(get).failed(3, "On 10.77.0.1, the user who runs the server");
        let lead_on = commands(&done.err);
        assert_eq!(lead_on.len(), 2, "{done:?}");
        assert!(done.err.contains(server.types(lead_on[0]).ok().out.trim()), "{done:?}");
        client.types(lead_on[1]).ok();
        // The server's own key is always on the list.
        server.types(&format!("{get} -o own")).ok();
        assert!(world.path("server/own").exists() && world.path("client/path").exists());
    });
}

#[test]
fn addresses_with_zones_are_listened_on_and_remembered() {
    let name = "addresses_with_zones_are_listened_on_and_remembered";
    in_namespace(name, Need::Namespace, "", || {
        let (world, peer) = (World::new(), two_hosts());
        let server = Host { world: &world, user: "server", peer: None };
        let client = Host { world: &world, user: "client", peer: Some(&peer) };
        fs::create_dir_all(world.path("server/DIR")).unwrap();
        fs::write(world.path("server/DIR/path"), "content").unwrap();
        let running = server.starts("fusewire serve DIR --public --listen '[fe80::1%clA0]:9300'");
        assert!(server.log().contains("fusewire://[fe80::1%clA0]:9300/"), "{}", server.log());
        let trust = server.types("fusewire key show").ok().out;
        let get = "fusewire get 'fusewire://[fe80::1%clB0]:9300/path'";
        client.types(&format!("{get} --trust {trust}")).ok();
        client.types(get).ok();
        let hosts = client.types("fusewire key show --hosts").ok().out;
        assert!(hosts.contains("[fe80::1%clB0]:9300 fw1:"), "{hosts}");
        client.types("fusewire key forget '[fe80::1%clB0]:9300'").ok();
        drop(running);
        let _running = server.starts("fusewire serve DIR --public --listen '[fe80::1%clA0]'");
        client
            .types(&format!("fusewire get 'fusewire://[fe80::1%clB0]/path' --trust {trust}"))
            .ok();
        client.types("fusewire key forget fe80::1%clB0").ok();
        assert_eq!(client.types("fusewire key show --hosts").ok().out.lines().count(), 1);
        server.types("fusewire serve DIR --listen '[fe80::1%nosuch]'").failed(2, "nosuch");
    });
}
