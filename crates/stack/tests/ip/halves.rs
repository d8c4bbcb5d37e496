//! A connection in halves, and for tasks.

use std::io::{Read, Write};
use std::time::Duration;

use fusewire_stack::ip::{AsyncTcpStream, Host, TcpStream};

use crate::host::{at, hosts};
use crate::net::pattern;

const SECONDS: Option<Duration> = Some(Duration::from_secs(20));

fn connected(hosts: &[Host; 2]) -> (TcpStream, TcpStream) {
    let listener = hosts[1].tcp_listen(at(1, 80), 8).unwrap();
    let client = hosts[0].tcp_connect(at(1, 80)).unwrap();
    let (server, _) = listener.accept_timeout(SECONDS).unwrap();
    for stream in [&client, &server] {
        stream.set_timeouts(SECONDS, SECONDS);
    }
    (client, server)
}

/// Both ways at once by threads that own their half each; the end of the writing half is the end of the stream.
#[test]
fn halves_are_owned_by_threads_of_their_own() {
    let hosts = hosts();
    let (client, mut server) = connected(&hosts);
    let bytes = pattern(17, 0, 2 << 20);
    let (mut read, mut write) = client.into_split();
    let sent = bytes.clone();
    let writes = std::thread::spawn(move || {
        write.write_all(&sent).unwrap();
        assert!(write.as_ref().info().unwrap().counters.timeouts < 5);
    });
    let len = bytes.len();
    let reads = std::thread::spawn(move || {
        let mut back = Vec::new();
        read.read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), len);
        back
    });
    let mut got = Vec::new();
    let echoes = std::thread::spawn(move || {
        server.read_to_end(&mut got).unwrap();
        server.write_all(&got).unwrap();
    });
    writes.join().unwrap();
    echoes.join().unwrap();
    assert!(reads.join().unwrap() == bytes, "the stream differs");
}

#[test]
fn halves_of_one_connection_come_together_again() {
    let hosts = hosts();
    let (client, mut server) = connected(&hosts);
    let (read, write) = client.into_split();
    let (other_read, other_write) = connected_again(&hosts).into_split();
    let not_one = read.reunite(other_write).unwrap_err();
    let mut client = not_one.0.reunite(write).unwrap();
    drop((not_one.1, other_read));
    // Its end was not told when the half was dropped.
    client.write_all(b"whole").unwrap();
    let mut out = [0; 5];
    server.read_exact(&mut out).unwrap();
    assert_eq!(&out, b"whole");
    // For tasks and back.
    let mut client = client.into_async().into_blocking();
    server.write_all(b"still").unwrap();
    client.read_exact(&mut out).unwrap();
    assert_eq!(&out, b"still");
}

fn connected_again(hosts: &[Host; 2]) -> TcpStream {
    let listener = hosts[1].tcp_listen(at(1, 81), 8).unwrap();
    let client = hosts[0].tcp_connect(at(1, 81)).unwrap();
    listener.accept_timeout(SECONDS).unwrap();
    client
}

fn is_send_and_sync<T: Send + Sync>(value: T) -> T {
    value
}

/// All of it by tasks.
#[test]
fn tasks_connect_and_talk_in_halves() {
    let hosts = hosts();
    let listener = hosts[1].tcp_listen(at(1, 80), 8).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let bytes = &pattern(19, 0, 1 << 20);
    runtime.block_on(async {
        let connects = AsyncTcpStream::connect(&hosts[0], at(1, 80));
        let (client, accepted) = tokio::join!(is_send(connects), listener.accept_async());
        let (client, (server, from)) = (client.unwrap(), accepted.unwrap());
        assert_eq!(from, client.as_ref().local_addr().unwrap());
        let (read, write) = is_send_and_sync(client).into_split();
        let writes = async {
            let (write, mut at) = (write, 0);
            while at < bytes.len() {
                at += is_send(write.as_ref().send(&bytes[at..])).await.unwrap();
            }
        };
        let echoes = async {
            let (mut got, mut piece) = (Vec::new(), vec![0; 50_000]);
            while let len @ 1.. = server.recv(&mut piece).await.unwrap() {
                got.extend(&piece[..len]);
            }
            server.send_shared(got).await.unwrap();
            drop(server);
        };
        let reads = async {
            let (mut got, mut piece) = (Vec::<u8>::new(), vec![0; 50_000]);
            while let len @ 1.. = is_send(read.as_ref().recv(&mut piece)).await.unwrap() {
                got.extend(&piece[..len]);
            }
            got
        };
        let (_, _, got) = tokio::join!(writes, echoes, reads);
        assert!(got == *bytes, "the stream differs");
    });
}

fn is_send<T: Send>(value: T) -> T {
    value
}

/// Who has the traits of both worlds at hand, as one does with tokio's `AsyncReadExt`, can name the methods of either.
#[cfg(feature = "tokio")]
#[test]
fn each_handle_is_of_one_world() {
    use std::future::poll_fn;
    use std::pin::Pin;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    trait ReadExt: AsyncRead + Unpin {
        async fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let mut out = ReadBuf::new(out);
            poll_fn(|context| Pin::new(&mut *self).poll_read(context, &mut out)).await?;
            Ok(out.filled().len())
        }
    }
    impl<T: AsyncRead + Unpin> ReadExt for T {}
    trait WriteExt: AsyncWrite + Unpin {
        async fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            poll_fn(|context| Pin::new(&mut *self).poll_write(context, bytes)).await
        }
    }
    impl<T: AsyncWrite + Unpin> WriteExt for T {}

    let hosts = hosts();
    let (mut client, server) = connected(&hosts);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut server = server.into_async();
    let mut out = [0; 8];
    assert_eq!(client.write(b"one").unwrap(), 3);
    runtime.block_on(async {
        assert_eq!(server.read(&mut out).await.unwrap(), 3);
        assert_eq!(server.write(b"two").await.unwrap(), 3);
    });
    assert_eq!(client.read(&mut out).unwrap(), 3);
    let (mut read, mut write) = server.into_split();
    assert_eq!(client.write(b"three").unwrap(), 5);
    runtime.block_on(async {
        assert_eq!(read.read(&mut out).await.unwrap(), 5);
        assert_eq!(write.write(b"four").await.unwrap(), 4);
    });
    assert_eq!(client.read(&mut out).unwrap(), 4);
}
