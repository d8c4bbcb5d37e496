//! What an outboard that has given up its rights can still do, tried by the process itself: it serves, and nothing else.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use fusewire_device::interface::{Link, memory};
use fusewire_outboard::client::Client;
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_outboard::server::{Server, Settings};
use fusewire_stack::Clock;
use fusewire_stack::ip::{Config, Stack};
use fusewire_testkit::scratch::Scratch;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType as Sort, socket_with};

const ROLE: &str = "FUSEWIRE_CONFINED_FOLDER";

/// Not a test: the outboard of the one below.
#[test]
#[ignore = "the test below starts it as a process of its own"]
fn role() {
    let Some(folder) = std::env::var_os(ROLE).map(std::path::PathBuf::from) else { return };
    let (ours, _theirs) =
        memory::pair(memory::Config { link: Link::Ip, ..memory::Config::default() }).unwrap();
    let mut net = Stack::net_config(&ours);
    net.addresses = vec!["10.0.0.1/24".parse().unwrap()];
    let clock = Clock::new();
    let stack = Stack::new(Box::new(ours), net, Config::default(), [7; 32], clock.now());
    let path = folder.join("outboard.sock");
    let mut server = Server::new(stack, clock, Settings::at(&path)).unwrap();
    std::fs::write(folder.join("before"), "may be written").unwrap();
    let stop = server.stop();
    let confined = server.confine(&[]).unwrap();
    assert!(confined.capabilities.is_empty(), "{confined:?}");

    // It serves, from threads too, and does what its own work takes.
    let serving = std::thread::spawn(move || server.run().map(|()| server));
    let client = Client::new(&path).unwrap();
    let (p, handle) = client.socket(SocketType { family: Family::V4, kind: Kind::Stream }).unwrap();
    client.listen(handle, 8).unwrap();
    assert_eq!(client.attach(p.as_fd()).unwrap().0, handle);

    refused(&folder, confined.has_landlock);
    stop.stop();
    drop(serving.join().unwrap().unwrap());
    assert!(!path.exists(), "its own socket's name it takes away");
    println!("so far");
    // Nobody of ours does this: it is over.
    let error = Command::new("/bin/true").exec();
    panic!("{error} and alive");
}

fn refused(folder: &std::path::Path, has_landlock: bool) {
    for family in [AddressFamily::INET, AddressFamily::INET6, AddressFamily::PACKET] {
        let socket = socket_with(family, Sort::DGRAM, SocketFlags::CLOEXEC, None);
        assert_eq!(socket.err(), Some(Errno::PERM), "{family:?}");
    }
    let (own, signal) = (rustix::process::getpid(), rustix::process::Signal::USR1);
    assert_eq!(rustix::process::kill_process(own, signal), Err(Errno::PERM));
    assert_eq!(rustix::process::chdir("/"), Err(Errno::PERM));
    assert!(rustix::thread::set_name(c"named").is_ok());
    let child = Command::new("/bin/true").spawn();
    assert_eq!(child.err().map(|error| error.kind()), Some(ErrorKind::PermissionDenied));
    if !has_landlock {
        return eprintln!("this kernel does not restrict files");
    }
    let kind = |result: std::io::Result<()>| result.err().map(|error| error.kind());
    let denied = Some(ErrorKind::PermissionDenied);
    assert_eq!(kind(std::fs::read("/etc/passwd").map(drop)), denied);
    assert_eq!(kind(std::fs::read_dir("/etc").map(drop)), denied);
    assert_eq!(kind(std::fs::write(folder.join("before"), "and not again")), denied);
    assert_eq!(kind(std::fs::write(folder.join("new"), "")), denied);
    assert_eq!(kind(std::fs::create_dir(folder.join("folder"))), denied);
}

#[test]
fn who_takes_it_over_has_little() {
    let scratch = Scratch::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, scratch.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = child.wait().unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(out.contains("so far"), "{out}{err}");
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{out}{err}");
}
