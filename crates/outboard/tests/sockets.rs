//! One program in Rust, three times: its sockets inline, an outboard's, and the kernel's beside them. What it sees is the same.

mod tap;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use fusewire_outboard::client;
use fusewire_outboard::server::Budget;
use fusewire_outboard::sockets::{AsyncTcpStream, Sockets};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use tap::with_outboard;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const OURS: &str = "10.9.0.2";
const KERNEL: &str = "10.9.0.1";
/// Longer than all that waits on the way.
const BULK: usize = 3_000_000;

fn at(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().unwrap(), port)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 9)) as u8).collect()
}

/// The peer, of the kernel's: what comes to port 7 goes back, on TCP and UDP.
fn kernel() {
    let listener = std::net::TcpListener::bind(at(KERNEL, 7)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut echo = stream.try_clone().unwrap();
                // One that is dropped before its end is reset.
                let _ = io::copy(&mut stream, &mut echo);
                let _ = echo.shutdown(Shutdown::Write);
            });
        }
    });
    let socket = std::net::UdpSocket::bind(at(KERNEL, 7)).unwrap();
    std::thread::spawn(move || {
        let mut message = [0; 2000];
        while let Ok((len, from)) = socket.recv_from(&mut message) {
            socket.send_to(&message[..len], from).unwrap();
        }
    });
}

/// The program, with threads that wait; what it has to say.
fn waits(sockets: &Sockets) -> String {
    let stream = sockets.tcp_connect(at(KERNEL, 7)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut said = format!("peer {}\n", stream.peer_addr().unwrap());
    said += &format!("local {}\n", stream.local_addr().unwrap().ip());
    let (sent, mut back) = (content(BULK), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut back).unwrap();
    });
    said += &format!("same {} late {:?}\n", back == sent, stream.send(b"late").unwrap_err().kind());

    let refused = sockets.tcp_connect(at(KERNEL, 4)).unwrap_err();
    said += &format!("refused {:?}\n", refused.kind());
    let stream = sockets.tcp_connect(at(KERNEL, 7)).unwrap();
    stream.set_timeouts(Some(Duration::from_millis(30)), None).unwrap();
    said += &format!("nothing {:?}\n", stream.recv(&mut [0; 9]).unwrap_err().kind());

    let listener = sockets.tcp_listen(at(OURS, 8), 4).unwrap();
    said += &format!("listens {}\n", listener.local_addr().unwrap());
    let taken = sockets.tcp_listen(at(OURS, 8), 4).map(|_| ()).unwrap_err();
    said += &format!("taken {:?}\n", taken.kind());
    let asks = std::thread::spawn(|| {
        let mut asks = std::net::TcpStream::connect(at(OURS, 8)).unwrap();
        asks.write_all(b"hello").unwrap();
        let mut answer = String::new();
        asks.read_to_string(&mut answer).unwrap();
        answer
    });
    let (mut stream, remote) = listener.accept().unwrap();
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).unwrap();
    stream.write_all(b"yes").unwrap();
    drop(stream);
    said += &format!("from {} {hello:?} {:?}\n", remote.ip(), asks.join().unwrap());

    let socket = sockets.udp_bind(at(OURS, 5)).unwrap();
    socket.set_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut message = [0; 2000];
    socket.send_to(&content(1400), at(KERNEL, 7)).unwrap();
    let (len, from) = socket.recv_from(&mut message).unwrap();
    said += &format!("message {len} {from} {}\n", message[..len] == content(1400));
    socket.connect(at(KERNEL, 7)).unwrap();
    socket.send(b"short").unwrap();
    said += &format!("message {:?}\n", socket.recv_from(&mut message[..3]).unwrap());
    socket.set_timeout(Some(Duration::from_millis(30))).unwrap();
    said + &format!("nothing {:?}\n", socket.recv_from(&mut message).unwrap_err().kind())
}

/// The same with tasks.
async fn tasks(sockets: &Sockets) -> String {
    let stream = AsyncTcpStream::connect(sockets, at(KERNEL, 7)).await.unwrap();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let sent = content(BULK);
    let write = async {
        writes.write_all(&sent).await.unwrap();
        writes.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let (_, read) = tokio::join!(write, reads.read_to_end(&mut back));
    let mut said = format!("read {} same {}\n", read.unwrap(), back == sent);
    let refused = AsyncTcpStream::connect(sockets, at(KERNEL, 4)).await.unwrap_err();
    said += &format!("refused {:?}\n", refused.kind());

    let listener = sockets.tcp_listen(at(OURS, 8), 16).unwrap().into_async().unwrap();
    let asks: Vec<_> = (0..8)
        .map(|i: u8| {
            std::thread::spawn(move || {
                let mut asks = std::net::TcpStream::connect(at(OURS, 8)).unwrap();
                asks.write_all(&[i; 100]).unwrap();
                let mut answer = [0; 100];
                asks.read_exact(&mut answer).unwrap();
                answer == [i ^ 1; 100]
            })
        })
        .collect();
    for _ in 0..asks.len() {
        let (stream, remote) = listener.accept().await.unwrap();
        assert_eq!((remote.ip(), stream.peer_addr().unwrap()), (at(KERNEL, 0).ip(), remote));
        let mut asked = [0; 100];
        let mut got = 0;
        while got < asked.len() {
            got += stream.recv(&mut asked[got..]).await.unwrap();
        }
        assert_eq!(stream.send(&asked.map(|byte| byte ^ 1)).await.unwrap(), 100);
        stream.finish().unwrap();
    }
    said += &format!("answered {:?}\n", asks.into_iter().all(|asks| asks.join().unwrap()));

    let socket = sockets.udp_bind(at(OURS, 6)).unwrap().into_async().unwrap();
    let mut message = [0; 2000];
    socket.send_to(&content(1200), at(KERNEL, 7)).await.unwrap();
    let got = socket.recv_from(&mut message).await.unwrap();
    let none = tokio::time::timeout(Duration::from_millis(30), socket.recv_from(&mut message));
    said + &format!("message {got:?} then none {}\n", none.await.is_err())
}

fn runs(word: &str) -> [String; 2] {
    let sockets = Sockets::open(&word.parse().unwrap()).unwrap();
    kernel();
    let waited = waits(&sockets);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    [waited, runtime.block_on(tasks(&sockets))]
}

const EXPECTED: [&str; 2] = [
    "peer 10.9.0.1:7\nlocal 10.9.0.2\nsame true late BrokenPipe\nrefused ConnectionRefused\n\
     nothing TimedOut\nlistens 10.9.0.2:8\ntaken AddrInUse\n\
     from 10.9.0.1 [104, 101, 108, 108, 111] \"yes\"\nmessage 1400 10.9.0.1:7 true\n\
     message (5, 10.9.0.1:7)\nnothing TimedOut\n",
    "read 3000000 same true\nrefused ConnectionRefused\nanswered true\n\
     message (1200, 10.9.0.1:7) then none true\n",
];

#[test]
fn inline_is_as_expected() {
    in_namespace("inline_is_as_expected", Need::Tap, "", || {
        sh("ip tuntap add mode tap name fw0");
        sh(&format!("ip addr add {KERNEL}/24 dev fw0; ip link set fw0 up"));
        assert_eq!(runs("tap:fw0 10.9.0.2/24"), EXPECTED);
    });
}

#[test]
fn an_outboard_is_as_inline() {
    in_namespace("an_outboard_is_as_inline", Need::Tap, "", || {
        let none = Sockets::open(&"outboard:/none.sock".parse().unwrap()).map(|_| ()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NetworkDown, "{none}");
        let (path, stream) = with_outboard(Budget::default(), |path| {
            let word = format!("outboard:{}", path.display());
            assert_eq!(runs(&word), EXPECTED);
            let sockets = Sockets::open(&word.parse().unwrap()).unwrap();
            (path.to_owned(), sockets.tcp_connect(at(KERNEL, 7)).unwrap())
        });
        // It is gone: whoever still waits is told.
        let kind = stream.recv(&mut [0; 9]).unwrap_err().kind();
        let is_told = matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::NetworkDown);
        assert!(is_told, "{kind:?}");
        assert!(client::Outboard::at(&path).is_err());
    });
}
