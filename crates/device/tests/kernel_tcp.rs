//! Kernel TCP as a byte stream: whole, both ways, with an end, and errors that say why.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use fusewire_device::kernel_tcp::{Listener, Stream};

const LONG: Option<Duration> = Some(Duration::from_secs(10));

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

fn write_all(stream: &mut Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (a, b) = bytes.split_at(bytes.len() / 3);
        match stream.write(&[IoSlice::new(a), IoSlice::new(b)]).unwrap() {
            0 => assert!(stream.wait(LONG, true).unwrap()),
            n => bytes = &bytes[n..],
        }
    }
}

fn read_to_end(stream: &mut Stream) -> Vec<u8> {
    let mut got = Vec::new();
    let (mut a, mut b) = (vec![0; 70_000], vec![0; 1000]);
    loop {
        match stream.read(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap() {
            None => assert!(stream.wait(LONG, false).unwrap()),
            Some(0) => return got,
            Some(n) => {
                got.extend(&a[..n.min(a.len())]);
                got.extend(&b[..n.saturating_sub(a.len())]);
            }
        }
    }
}

#[test]
fn carries_bytes_both_ways_by_both_ip_versions() {
    for addr in ["127.0.0.1:0", "[::1]:0"] {
        let mut listener = Listener::bind(addr).unwrap();
        let local = listener.local_addr().unwrap();
        let data = pattern(5_000_000);
        let client = thread::spawn({
            let data = data.clone();
            move || {
                let mut stream = Stream::connect(local).unwrap();
                write_all(&mut stream, &data);
                stream.finish().unwrap();
                assert!(stream.connected().unwrap());
                read_to_end(&mut stream)
            }
        });
        assert!(listener.wait(LONG).unwrap());
        let mut stream = listener.accept().unwrap().unwrap();
        assert!(listener.accept().unwrap().is_none());
        let got = read_to_end(&mut stream);
        assert!(got == data, "{} of {} bytes came or they differ", got.len(), data.len());
        write_all(&mut stream, &got[..100_000]);
        drop(stream);
        assert!(client.join().unwrap() == data[..100_000]);
    }
}

#[test]
fn a_refused_connection_says_so() {
    let addr: SocketAddr = {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut stream = Stream::connect(addr).unwrap();
    stream.wait(LONG, true).unwrap();
    assert_eq!(stream.connected().unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn another_thread_wakes_a_sleeping_stream() {
    let mut listener = Listener::bind("127.0.0.1:0").unwrap();
    let mut stream = Stream::connect(listener.local_addr().unwrap()).unwrap();
    listener.wait(LONG).unwrap();
    let _server = listener.accept().unwrap().unwrap();
    let waker = stream.waker();
    let thread = thread::spawn(move || waker.wake());
    assert!(stream.wait(LONG, false).unwrap());
    thread.join().unwrap();
}
