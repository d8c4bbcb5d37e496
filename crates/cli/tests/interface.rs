//! Transfers straight over a network interface, by the program itself: each device against kernel UDP at the other end of
//! a veth, in namespaces that go with the test. Needs root.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use support::{Done, Server, World, bytes, wait_for_part};

/// Here is `fwb`, with 10.80.0.2 and fd80::2; the other host has 10.80.0.1 and fd80::1 on `fwa`. What is our own address,
/// where one is, ends with 9.
fn hosts() -> Peer {
    let peer = Peer::new();
    // Addresses of the link itself are there at once.
    sh("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad");
    peer.sh("echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad");
    sh(&format!(
        "ip link add fwb numtxqueues 2 numrxqueues 2 type veth \
         peer name fwa numtxqueues 2 numrxqueues 2 netns {}\n\
         ip addr add 10.80.0.2/24 dev fwb\nip addr add fd80::2/64 dev fwb nodad\nip link set fwb up",
        peer.pid()
    ));
    peer.sh("ip addr add 10.80.0.1/24 dev fwa\nip addr add fd80::1/64 dev fwa nodad\nip link set fwa up");
    peer
}

/// The same command on the other host.
fn there(peer: &Peer, command: &Command) -> Command {
    let mut other = peer.command(command.get_program().to_str().unwrap());
    other.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other.stdin(std::process::Stdio::null());
    other.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    other
}

fn serve(world: &World, args: &[&str]) -> Command {
    let served = world.path("served");
    let mut all = vec!["serve", served.to_str().unwrap(), "--writable", "--json"];
    all.extend(args);
    world.command("alice", &all)
}

/// Gets a file and puts it back under another name, and compares all three.
fn both_ways(world: &World, server: &Server, device: &[&str], content: &[u8]) {
    let here = |args: &[&str]| world.run("alice", args);
    both_ways_from(&here, world, server, device, content);
}

/// The same by a client that is started like this.
fn both_ways_from(
    run: &dyn Fn(&[&str]) -> Done,
    world: &World,
    server: &Server,
    device: &[&str],
    content: &[u8],
) {
    fs::write(world.served("file"), content).unwrap();
    let (file, back) = (server.url("file"), server.url("back"));
    let mut get = vec!["get", &file, "-v"];
    get.extend(device);
    let done = run(&get).ok();
    assert!(done.err.contains("over "), "{done:?}");
    assert!(fs::read(world.here("file")).unwrap() == content, "got with {device:?}");
    let mut put = vec!["put", "file", &back];
    put.extend(device);
    run(&put).ok();
    assert!(fs::read(world.served("back")).unwrap() == content, "put with {device:?}");
    let top = server.url("");
    let mut ls = vec!["ls", &top];
    ls.extend(device);
    let listed = run(&ls).ok().out;
    assert!(listed == "back\nfile\n" || listed == "file\nback\n", "{listed}");
    fs::remove_file(world.here("file")).unwrap();
    fs::remove_file(world.served("back")).unwrap();
}

#[test]
fn files_go_both_ways_against_kernel_udp_at_either_end() {
    in_namespace("files_go_both_ways_against_kernel_udp_at_either_end", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        let content = bytes(5_000_001, 5);
        for device in ["packet", "xdp"] {
            for (ours, theirs) in [("10.80.0.2", "10.80.0.1"), ("[fd80::2]", "[fd80::1]")] {
                // Ours is the client.
                let command = serve(&world, &["--listen", &format!("{theirs}:0")]);
                let server = Server::start(there(&peer, &command));
                both_ways(&world, &server, &["--device", &format!("{device}:fwb")], &content);
                drop(server);
                // Ours is the server, on the other host.
                let name = format!("{device}:fwa");
                let command =
                    serve(&world, &["--device", &name, "--listen", &format!("{theirs}:0")]);
                let server = Server::start(there(&peer, &command));
                assert!(server.address.starts_with(theirs), "{}", server.address);
                both_ways(&world, &server, &["--device", "udp"], &content);
                // And at both ends, each on the kernel's address.
                both_ways(&world, &server, &["--device", &format!("{device}:fwb")], &content);
                let _ = ours;
            }
        }
    });
}

/// `fusewire outboard` on an interface; killed with this.
struct Outboard {
    child: Child,
    device: String,
}

impl Outboard {
    fn start(world: &World, on: Option<&Peer>, interface: &str, address: &str) -> Outboard {
        let place = world.path(interface);
        let (device, place) = (format!("packet:{interface}"), place.to_str().unwrap());
        let args =
            ["outboard", "--device", &device, "--address", address, "--socket", place, "--json"];
        let mut command = world.command("alice", &args);
        if let Some(peer) = on {
            command = there(peer, &command);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("ready"), "{line}");
        Outboard { child, device: format!("outboard:{place}") }
    }
}

impl Drop for Outboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn files_go_by_streams_of_an_outboard() {
    in_namespace("files_go_by_streams_of_an_outboard", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        let content = bytes(5_000_001, 11);
        let ours = Outboard::start(&world, None, "fwb", "10.80.0.9/24");
        let device = ["--device", ours.device.as_str()];
        // With the kernel's sockets at the other end: ours is the client, then the server.
        let command = serve(&world, &["--listen", "10.80.0.1:0"]);
        let server = Server::start(there(&peer, &command));
        both_ways(&world, &server, &device, &content);
        drop(server);
        let server = Server::start(serve(&world, &device));
        assert_eq!(server.address, "10.80.0.9:9293");
        let from_there =
            |args: &[&str]| Done::of(there(&peer, &world.command("alice", args)).spawn().unwrap());
        both_ways_from(&from_there, &world, &server, &["--device", "kernel-tcp"], &content);
        drop(server);
        // And outboards at both.
        let theirs = Outboard::start(&world, Some(&peer), "fwa", "10.80.0.8/24");
        let server = Server::start(there(&peer, &serve(&world, &["--device", &theirs.device])));
        assert_eq!(server.address, "10.80.0.8:9293");
        both_ways(&world, &server, &device, &content);

        let url = server.url("file");
        drop(ours);
        let gone = world.run(
            "alice",
            &["get", &url, "--device", &format!("outboard:{}", world.path("fwb").display())],
        );
        assert!(gone.code == 4 && gone.err.contains("there is none"), "{gone:?}");
    });
}

/// What both sides have of XTP without UDP.
const XTP: [&str; 4] = ["--transport", "xtp", "--carrier", "ip"];

#[test]
fn xtp_goes_straight_over_ip() {
    in_namespace("xtp_goes_straight_over_ip", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        let content = bytes(5_000_001, 9);
        for device in ["packet", "xdp"] {
            let (near, far) = (format!("{device}:fwb"), format!("{device}:fwa"));
            for (theirs, own) in [("10.80.0.1", "10.80.0.9/24"), ("[fd80::1]", "fd80::9/64")] {
                let listen = format!("{theirs}:9293");
                let args = ["--device", &far, "--listen", &listen];
                let command = serve(&world, &[&args[..], &XTP].concat());
                let server = Server::start(there(&peer, &command));
                assert_eq!(server.address, listen);
                let near = [&["--device", &near][..], &XTP].concat();
                both_ways(&world, &server, &near, &content);
                // And from an address that the kernel does not have.
                both_ways(&world, &server, &[&near[..], &["--address", own]].concat(), &content);
            }
        }
    });
}

#[test]
fn xtp_goes_straight_over_ip_between_two_taps() {
    in_namespace("xtp_goes_straight_over_ip_between_two_taps", Need::Root, "", || {
        let world = World::new();
        let content = bytes(3_000_001, 10);
        sh("ip link add fwr type bridge\nip link set fwr up\n\
            for tap in fws fwt; do ip tuntap add dev $tap mode tap vnet_hdr; \
            ip link set $tap master fwr up; done");
        for own in [["10.81.0.2/24", "10.81.0.3/24"], ["fd81::2/64", "fd81::3/64"]] {
            let args = ["--device", "tap:fws", "--address", own[0]];
            let server = Server::start(serve(&world, &[&args[..], &XTP].concat()));
            let args = ["--device", "tap:fwt", "--address", own[1]];
            both_ways(&world, &server, &[&args[..], &XTP].concat(), &content);
        }
    });
}

#[test]
fn one_process_speaks_xtp_on_an_address() {
    in_namespace("one_process_speaks_xtp_on_an_address", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        fs::write(world.served("a"), "content").unwrap();
        let with = |args: &[&'static str]| [args, &XTP].concat();
        let args = with(&["--device", "packet:fwb", "--listen", "10.80.0.2:9293"]);
        let server = Server::start(serve(&world, &args));
        let mut second = vec!["serve", ".", "--no-kernel-tcp"];
        second.extend(&args);
        let refused = "XTP, protocol 36 of IP, on 10.80.0.2: another process has it";
        world.run("alice", &second).failed(1, refused);
        let url = "fusewire://10.80.0.1/a";
        let get = with(&["get", url, "--device", "packet:fwb"]);
        world.run("alice", &get).failed(1, refused);
        drop(server);
        // The other host does not speak it, and its kernel says so.
        world.run("alice", &get).failed(4, "nobody listens");
        let v6 = with(&["get", "fusewire://[fd80::1]/a", "--device", "packet:fwb"]);
        world.run("alice", &v6).failed(4, "nobody listens");
        // What makes no sense.
        let udp = ["get", url, "--carrier", "ip", "--transport", "xtp"];
        world.run("alice", &udp).failed(2, "needs a --device");
        let tcp = ["get", url, "--carrier", "ip", "--device", "packet:fwb"];
        world.run("alice", &tcp).failed(2, "needs --transport xtp");
        let many = with(&["get", url, "--device", "packet:fwb", "-j", "3"]);
        world.run("alice", &many).failed(2, "use -j 1");
        let _ = peer;
    });
}

#[test]
fn an_address_of_our_own_needs_no_kernel() {
    in_namespace("an_address_of_our_own_needs_no_kernel", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        let content = bytes(2_000_003, 6);
        for device in ["packet", "xdp"] {
            for (own, theirs) in [("10.80.0.9/24", "10.80.0.1"), ("fd80::9/64", "[fd80::1]")] {
                let command = serve(&world, &["--listen", &format!("{theirs}:0")]);
                let server = Server::start(there(&peer, &command));
                let name = format!("{device}:fwb");
                both_ways(&world, &server, &["--device", &name, "--address", own], &content);
            }
            let name = format!("{device}:fwa");
            let args = ["--device", &name, "--address", "10.80.0.9/24"];
            let server = Server::start(there(&peer, &serve(&world, &args)));
            assert_eq!(server.address, "10.80.0.9:9293");
            both_ways(&world, &server, &[], &content);
        }
    });
}

#[test]
fn a_tap_leads_to_this_host() {
    in_namespace("a_tap_leads_to_this_host", Need::Root, "", || {
        let world = World::new();
        let content = bytes(3_000_001, 7);
        for (own, kernels) in [("10.81.0.2/24", "10.81.0.1"), ("fd81::2/64", "[fd81::1]")] {
            sh("ip tuntap add dev fwt mode tap vnet_hdr\nip addr add 10.81.0.1/24 dev fwt\n\
                ip addr add fd81::1/64 dev fwt nodad\nip link set fwt up");
            let server = Server::start(serve(&world, &["--listen", &format!("{kernels}:0")]));
            both_ways(&world, &server, &["--device", "tap:fwt", "--address", own], &content);
            drop(server);
            let args = ["--device", "tap:fwt", "--address", own];
            let server = Server::start(serve(&world, &args));
            both_ways(&world, &server, &[], &content);
            drop(server);
            sh("ip link del fwt");
        }
    });
}

/// A transfer under way from the other host, slow enough to be met in the middle.
fn under_way(world: &World, peer: &Peer, device: &str) -> (Server, std::process::Child) {
    fs::write(world.served("big"), bytes(24 << 20, 8)).unwrap();
    for left in fs::read_dir(world.path("here")).unwrap() {
        fs::remove_file(left.unwrap().path()).unwrap();
    }
    let server = Server::start(there(peer, &serve(world, &["--listen", "10.80.0.1:0"])));
    let url = server.url("big");
    let args = ["get", &url, "--rate", "6M", "--device", device];
    let child = world.command("alice", &args).spawn().unwrap();
    wait_for_part(&world.path("here"), 1 << 20);
    (server, child)
}

fn ended(mut child: std::process::Child) -> support::Done {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("hung: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    support::Done::of(child)
}

#[test]
fn killed_or_interrupted_it_leaves_the_host_as_it_was() {
    in_namespace("killed_or_interrupted_it_leaves_the_host_as_it_was", Need::Root, "", || {
        use rustix::process::{Pid, Signal, kill_process};
        let (world, peer) = (World::new(), hosts());
        let state = || {
            sh(
                "ip -d link show fwb; ip addr show fwb; ip route; ss -Hnulpa; ss -Hnltpa; ss -Hnap -0",
            )
        };
        // What comes and goes by itself: counts and times of addresses.
        let before = state();
        for device in ["packet:fwb", "xdp:fwb"] {
            for signal in [Signal::KILL, Signal::INT] {
                let (server, child) = under_way(&world, &peer, device);
                if device.starts_with("xdp") {
                    assert!(sh("ip -d link show fwb").contains("xdp"), "no program is there");
                }
                assert_ne!(state(), before, "{device} is not seen at all");
                kill_process(Pid::from_child(&child), signal).unwrap();
                let done = ended(child);
                assert!(signal == Signal::KILL || done.code == 130, "{done:?}");
                let start = Instant::now();
                while state() != before {
                    assert!(start.elapsed() < Duration::from_secs(60), "{}\n{before}", state());
                    std::thread::sleep(Duration::from_millis(50));
                }
                // What had come is gone on with, over the kernel, as though nothing had been.
                let args = ["get", &server.url("big"), "--json"];
                let summary = world.run("alice", &args).ok().summary();
                assert!(summary["bytes_resumed"].as_u64().unwrap() >= 1 << 20, "{summary}");
                assert!(fs::read(world.here("big")).unwrap() == bytes(24 << 20, 8));
                fs::remove_file(world.here("big")).unwrap();
            }
        }
    });
}

#[test]
fn what_vanishes_is_said_and_what_changes_is_followed() {
    in_namespace("what_vanishes_is_said_and_what_changes_is_followed", Need::Root, "", || {
        for device in ["packet:fwb", "xdp:fwb"] {
            let (world, peer) = (World::new(), hosts());
            // Smaller packets from now on, and a link that was down for a while.
            let (server, child) = under_way(&world, &peer, device);
            peer.sh("ip link set fwa mtu 1400");
            sh("ip link set fwb mtu 1400; ip link set fwb down; sleep 0.3; ip link set fwb up");
            sh("ip addr add fd80::2/64 dev fwb nodad");
            ended(child).ok();
            assert!(fs::read(world.here("big")).unwrap() == bytes(24 << 20, 8));
            fs::remove_file(world.here("big")).unwrap();
            drop(server);
            let (server, child) = under_way(&world, &peer, device);
            sh("ip addr del 10.80.0.2/24 dev fwb");
            ended(child).failed(4, "the kernel no longer has the address 10.80.0.2");
            sh("ip addr add 10.80.0.2/24 dev fwb");
            drop(server);
            let (server, child) = under_way(&world, &peer, device);
            sh("ip link del fwb");
            ended(child).failed(4, "the network interface was deleted");
            drop(server);
        }
        // A server on a TAP that goes.
        let world = World::new();
        let server =
            Server::start(serve(&world, &["--device", "tap:fwt", "--address", "10.81.0.2/24"]));
        sh("ip link del fwt");
        server.wait().failed(1, "the network interface was deleted");
    });
}

#[test]
fn what_cannot_be_is_said_before_anything_is_taken() {
    in_namespace("what_cannot_be_is_said_before_anything_is_taken", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        let url = "fusewire://10.80.0.1:9/x";
        let get = |args: &[&str]| world.run("alice", &[&["get", url], args].concat());
        get(&["--device", "packet:fwz"]).failed(1, "no interface fwz");
        get(&["--device", "packet"]).failed(2, "packet:INTERFACE");
        get(&["--device", "tap:fwt"]).failed(2, "--address");
        get(&["--device", "udp", "--address", "10.80.0.9/24"]).failed(2, "--address");
        let own = ["--device", "packet:fwb", "--address", "10.80.0.2/24"];
        get(&own).failed(1, "is the kernel's");
        let args = ["get", "fusewire://10.80.0.2/x", "--device", "packet:fwb"];
        world.run("alice", &args).failed(4, "this host's own");
        let args = ["get", "fusewire://192.0.2.1/x", "--device", "packet:fwb"];
        world.run("alice", &args).failed(4, "no route");
        world.run("alice", &["serve", ".", "--device", "shm"]).failed(2, "clients choose it");
        // Nobody has the port: the kernel there says so, and AF_PACKET hears it.
        get(&["--device", "packet:fwb"]).failed(4, "nobody listens");
        let _ = peer;
    });
}

#[test]
fn auto_takes_no_interface_by_itself() {
    in_namespace("auto_takes_no_interface_by_itself", Need::Root, "", || {
        let (world, peer) = (World::new(), hosts());
        fs::write(world.served("a"), "content").unwrap();
        let server = Server::start(there(&peer, &serve(&world, &["--listen", "10.80.0.1:0"])));
        let done = world.run("alice", &["get", &server.url("a"), "--device", "auto", "-v"]).ok();
        assert!(done.err.contains("over udp: ") && done.err.contains("fwb"), "{done:?}");
        fs::remove_file(world.here("a")).unwrap();
        let done =
            world.run("alice", &["get", &server.url("a"), "--device", "auto:fwb", "-v"]).ok();
        assert!(done.err.contains("over packet: AF_PACKET on fwb"), "{done:?}");
        drop(server);
        let server = Server::start(serve(&world, &["--listen", "10.80.0.2:0"]));
        fs::remove_file(world.here("a")).unwrap();
        let done = world.run("alice", &["get", &server.url("a"), "--device", "auto", "-v"]).ok();
        assert!(done.err.contains("over shm: the server is on this host"), "{done:?}");
    });
}

/// Transfers over kernel UDP, each way and by each transport, that have begun and take a few seconds more.
struct UnderWay {
    world: World,
    peer: Peer,
    servers: Vec<Server>,
    clients: Vec<Child>,
    content: Vec<u8>,
}

impl UnderWay {
    fn new() -> UnderWay {
        let (world, peer) = (World::new(), hosts());
        // No super-frame of the kernel's passes a narrow link as a whole.
        sh("ip link set fwb gso_max_segs 1");
        peer.sh("ip link set fwa gso_max_segs 1");
        let content = bytes(8_000_001, 5);
        fs::write(world.served("file"), &content).unwrap();
        fs::write(world.here("file"), &content).unwrap();
        let (mut servers, mut clients) = (vec![], vec![]);
        for transport in ["tcp", "xtp"] {
            let args = ["--listen", "10.80.0.1:0", "--transport", transport];
            let server = Server::start(there(&peer, &serve(&world, &args)));
            let (from, to) = (server.url("file"), server.url(transport));
            let ways = [["get", &from, "-o", transport], ["put", "file", &to, "-q"]];
            clients.extend(ways.map(|way| {
                let rest = ["--transport", transport, "--device", "udp", "--rate", "3M"];
                world.command("alice", &[&way[..], &rest].concat()).spawn().unwrap()
            }));
            servers.push(server);
        }
        wait_for_part(&world.path("here"), 1 << 20);
        wait_for_part(&world.path("served"), 1 << 20);
        UnderWay { world, peer, servers, clients, content }
    }

    fn ends(self) {
        for client in self.clients {
            Done::of(client).ok();
        }
        for name in ["tcp", "xtp"] {
            assert!(fs::read(self.world.here(name)).unwrap() == self.content, "get by {name}");
            assert!(fs::read(self.world.served(name)).unwrap() == self.content, "put by {name}");
        }
        drop(self.servers);
    }
}

#[test]
fn transfers_continue_after_a_link_was_down() {
    in_namespace("transfers_continue_after_a_link_was_down", Need::Root, "", || {
        let under_way = UnderWay::new();
        under_way.peer.sh("ip link set fwa down");
        std::thread::sleep(Duration::from_millis(3000));
        under_way.peer.sh("ip link set fwa up");
        under_way.ends();
    });
}
