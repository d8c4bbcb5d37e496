//! rpcgen's C with libtirpc, built here, against ours: both ways, over TCP and UDP, with every kind of type.

mod support;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fusewire_rpc::{
    AuthSys, Client, Config, Credential, Datagrams, Error, ListenConfig, RecordConfig, Records,
    Server, Transport, serve_streams,
};
use support::kinds::*;
use support::{content, everything, services};

/// The folder with the C programs; none where there is no rpcgen or no libtirpc.
fn programs() -> Option<tempfile::TempDir> {
    let has = |program: &str, argument: &str| {
        Command::new(program)
            .arg(argument)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if !has("rpcgen", "--version") || !has("cc", "--version") {
        println!("skipped: no rpcgen or no C compiler (Debian: rpcsvc-proto, gcc)");
        return None;
    }
    if !Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
        println!("skipped: no libtirpc (Debian: libtirpc-dev)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    std::fs::copy(tests.join("../../xdr/tests/expect/kinds.x"), folder.path().join("kinds.x"))
        .unwrap();
    for (option, output) in
        [("-h", "kinds.h"), ("-c", "kinds_xdr.c"), ("-m", "kinds_svc.c"), ("-l", "kinds_clnt.c")]
    {
        run(Command::new("rpcgen").args(["-C", option, "-o", output, "kinds.x"]), folder.path());
    }
    for program in ["server", "client"] {
        let source: PathBuf = tests.join("interop").join(program).with_extension("c");
        run(
            Command::new("cc")
                .args(["-O1", "-w", "-I.", "-I/usr/include/tirpc", "-o", program])
                .arg(source)
                .arg("kinds_xdr.c")
                .args((program == "server").then_some("kinds_svc.c"))
                .arg("-ltirpc"),
            folder.path(),
        );
    }
    Some(folder)
}

fn run(command: &mut Command, folder: &Path) {
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A C server, which ends with the test.
struct Peer {
    child: Child,
    tcp: SocketAddr,
    udp: SocketAddr,
}

impl Peer {
    fn start(folder: &Path) -> Peer {
        let mut child = Command::new(folder.join("server")).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ports: Vec<u16> = line.split_whitespace().map(|port| port.parse().unwrap()).collect();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Peer { child, tcp: at(ports[0]), udp: at(ports[1]) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that a server of `kinds.x` answers, whoever made it.
fn calls<T: Transport>(connect: &mut dyn FnMut() -> T, large: u32) {
    let mut first = kinds_prog::kinds_first::Client::new(connect());
    first.kinds_null().unwrap();
    let sums: Vec<_> =
        (0..20).map(|n| (n, first.begin_kinds_sum(&Pair { a: n, b: -2 }).unwrap())).collect();
    for (n, call) in sums.into_iter().rev() {
        assert_eq!(first.wait(call).unwrap(), n - 2);
    }
    assert_eq!(first.0.in_flight(), 0);

    let mut second = kinds_prog::kinds_second::Client::new(connect());
    second.null().unwrap();
    let sent = everything();
    assert_eq!(second.kinds_echo(&sent).unwrap(), sent);
    let bytes = second.kinds_large(large).unwrap();
    assert!(bytes == content(large), "{} of {large} bytes", bytes.len());
    second.kinds_take(&bytes).unwrap();
    let mut other = bytes;
    other[large as usize - 1] ^= 1;
    assert!(matches!(second.kinds_take(&other), Err(Error::SystemError)));
    assert_eq!(second.kinds_greet(b"fuse").unwrap(), b"hi fuse");
    let list: Vec<_> = (0..1000).map(|value| Entry { value, text: vec![] }).collect();
    let reversed = second.kinds_reverse(&list).unwrap();
    assert!(reversed.iter().map(|e| e.value).eq((0..1000).rev()));
    assert!(matches!(second.kinds_greet(&[b'x'; 17]), Err(Error::Arguments(_))));

    assert_eq!(second.kinds_count().unwrap(), 0);
    let sys = AuthSys {
        stamp: 1,
        machine_name: b"machine".to_vec(),
        uid: 4711,
        gid: 100,
        gids: (0..16).collect(),
    };
    second.0.set_credential(Credential::Sys(sys));
    assert_eq!(second.kinds_count().unwrap(), 4711);
    assert!(matches!(second.kinds_fail(), Err(Error::SystemError)));

    let nothing =
        |client: &mut Client<T>, procedure| client.call(procedure, |_| Ok(()), |_| Ok(()));
    assert!(matches!(nothing(&mut second.0, 99), Err(Error::ProcedureUnavailable)));
    assert!(matches!(nothing(&mut second.0, 1), Err(Error::GarbageArguments)));
    let mut client = Client::new(connect(), kinds_prog::PROGRAM, 2, Config::default());
    assert!(matches!(nothing(&mut client, 0), Err(Error::ProgramMismatch { low: 1, high: 3 })));
    let mut client = Client::new(connect(), kinds_prog::PROGRAM + 1, 1, Config::default());
    assert!(matches!(nothing(&mut client, 0), Err(Error::ProgramUnavailable)));
}

#[test]
fn our_client_calls_rpcgens_server() {
    let Some(folder) = programs() else { return };
    let peer = Peer::start(folder.path());
    // Ours in small fragments, theirs too.
    let config = RecordConfig { fragment_len: 1000, ..RecordConfig::default() };
    calls(&mut || Records::with(TcpStream::connect(peer.tcp).unwrap(), config), 900_001);
    calls(&mut || Datagrams::connect(peer.udp).unwrap(), 60_000);
}

/// Our server on two ports of this machine.
fn serve() -> (SocketAddr, SocketAddr) {
    let services = Arc::new(services());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addrs = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
    let shared = services.clone();
    std::thread::spawn(move || {
        let records = RecordConfig { fragment_len: 1000, ..RecordConfig::default() };
        let config = ListenConfig { records, ..ListenConfig::default() };
        serve_streams(|| listener.accept().map(|(stream, _)| stream), &shared, &config)
    });
    std::thread::spawn(move || Server::new(Datagrams::server(socket)).run(&services));
    addrs
}

#[test]
fn rpcgens_client_calls_our_server() {
    let Some(folder) = programs() else { return };
    let (tcp, udp) = serve();
    for (protocol, addr) in [("tcp", tcp), ("udp", udp)] {
        run(
            Command::new(folder.path().join("client")).args([protocol, &addr.port().to_string()]),
            folder.path(),
        );
    }
}

#[test]
fn our_client_calls_our_server() {
    let (tcp, udp) = serve();
    calls(&mut || Records::new(TcpStream::connect(tcp).unwrap()), 900_001);
    calls(&mut || Datagrams::connect(udp).unwrap(), 60_000);
    // What does not fit a datagram is said, here and there.
    let mut client = kinds_prog::kinds_second::Client::new(Datagrams::connect(udp).unwrap());
    assert!(matches!(client.kinds_large(66_000), Err(Error::SystemError)));
    assert!(matches!(client.kinds_take(&[0; 66_000]), Err(Error::TooLong { .. })));
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let timeout = Duration::from_millis(300);
    let config = Config { timeout, retransmit: timeout / 6, ..Config::default() };
    let transport = Datagrams::connect(nobody.local_addr().unwrap()).unwrap();
    let mut client = kinds_prog::kinds_second::Client::with(transport, config);
    assert!(matches!(client.null(), Err(Error::TimedOut(_))));
}
