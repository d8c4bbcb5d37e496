//! Programs that everybody has.

use std::io::Write;
use std::net::SocketAddr;

use fusewire_stack::ip::SocketId;

use crate::lan::{Lan, Link, at, can_run, content, kernel, ours};
use crate::services::{Echo, Http, Iperf, Server};

const BYTES: usize = 3 << 20;

fn http(lan: &mut Lan, at: SocketAddr) -> Server<Http> {
    Server::new(&mut lan.stack, at, |_| Http { content: content(BYTES), request: Vec::new() })
}

#[test]
fn curl_fetches_and_sends() {
    if !can_run(&["curl", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    let file = std::env::temp_dir().join(format!("fusewire-interop-put-{}", std::process::id()));
    std::fs::File::create(&file).unwrap().write_all(&content(BYTES)).unwrap();
    for v6 in [false, true] {
        let address = at(ours(v6), 80);
        let mut server = http(&mut lan, address);
        let url = format!("http://{address}/content");
        let mut get = lan.command("curl", &["-sS", "--noproxy", "*", &url]);
        let got = lan.until_ended(&mut get, |lan| server.step(lan));
        assert_eq!(blake3::hash(&got.stdout), blake3::hash(&content(BYTES)), "v6: {v6}");
        let arguments = ["-sS", "--noproxy", "*", "-T", file.to_str().unwrap(), &url];
        let mut put = lan.command("curl", &arguments);
        let got = lan.until_ended(&mut put, |lan| server.step(lan));
        let hash = blake3::hash(&content(BYTES)).to_hex();
        assert_eq!(String::from_utf8_lossy(&got.stdout), hash.as_str(), "v6: {v6}");
    }
    let _ = std::fs::remove_file(file);
    capture.check(2000);
}

#[test]
fn socat_hears_its_echo() {
    if !can_run(&["socat", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let address = at(ours(v6), 7);
        let mut server = Server::new(&mut lan.stack, address, |_| Echo);
        let script = format!(
            "head -c 300000 /dev/zero | tr '\\0' 'x' | socat -t 10 - TCP:{address} | tr -d 'x' | wc -c; \
             head -c 300000 /dev/zero | socat -t 10 - TCP:{address} | wc -c"
        );
        let mut socat = lan.command("sh", &["-c", &script]);
        let got = lan.until_ended(&mut socat, |lan| server.step(lan));
        let text = String::from_utf8_lossy(&got.stdout).into_owned();
        let counts: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(counts, ["0", "300000"], "v6: {v6}");
    }
    capture.check(400);
}

#[test]
fn ping_is_answered_whole_and_in_fragments() {
    if !can_run(&["ping", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        for size in ["0", "56", "1472", "4000", "30000"] {
            let address = ours(v6).to_string();
            let arguments = ["-n", "-c", "3", "-i", "0.02", "-W", "2", "-s", size, &address];
            let mut ping = lan.command("ping", &arguments);
            let got = lan.until_ended(&mut ping, |_| {});
            let text = String::from_utf8_lossy(&got.stdout).into_owned();
            assert!(text.contains("3 received"), "{size} bytes, v6 {v6}: {text}");
        }
    }
    capture.check(30);
}

#[test]
fn tracepath_reaches_us_in_one_hop() {
    if !can_run(&["tracepath", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let mut tracepath = lan.command("tracepath", &["-n", &ours(v6).to_string()]);
        let got = lan.until_ended(&mut tracepath, |_| {});
        let text = String::from_utf8_lossy(&got.stdout).into_owned();
        assert!(text.contains("pmtu 1500 hops 1 back 1") && text.contains("reached"), "{text}");
    }
    capture.check(2);
}

#[test]
fn iperf3_measures_us() {
    if !can_run(&["iperf3", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let mut server = Server::new(&mut lan.stack, at(ours(v6), 5201), Iperf::of);
        let address = ours(v6).to_string();
        let mut client = lan.command("iperf3", &["-c", &address, "-n", "8M", "-J"]);
        let got = lan.until_ended(&mut client, |lan| server.step(lan));
        let json: serde_json::Value = serde_json::from_slice(&got.stdout).unwrap();
        let sent = json["end"]["sum_sent"]["bytes"].as_u64();
        assert!(sent >= Some(8 << 20), "v6: {v6}: {json}");
        assert_eq!(server.accepted, 2);
    }
    capture.check(100);
}

#[test]
fn we_fetch_from_a_program() {
    if !can_run(&["socat", "tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let family = if v6 { "TCP6-LISTEN" } else { "TCP4-LISTEN" };
        let listen = format!("{family}:4000,reuseaddr");
        let mut socat = lan.command("socat", &["-t", "10", &listen, "EXEC:cat"]);
        let sent = content(BYTES);
        let mut received = Vec::new();
        let mut written = 0;
        let mut connection = None;
        let mut ended = false;
        let mut buffer = vec![0; 1 << 16];
        lan.until_ended(&mut socat, |lan| {
            let now = lan.clock.now();
            let id = *connection.get_or_insert_with(|| {
                // socat listens once it has started: until then the kernel refuses.
                lan.stack.tcp_connect(now, at(kernel(v6), 4000)).unwrap()
            });
            match lan.stack.tcp_write(id, &sent[written..]) {
                Ok(len) if len > 0 => {
                    written += len;
                    if written == sent.len() {
                        lan.stack.tcp_finish(id).unwrap();
                    }
                }
                Err(_) if received.is_empty() => {
                    let _ = lan.stack.close(now, id);
                    (connection, written) = (None, 0);
                    return;
                }
                _ => {}
            }
            ended = drain(lan, id, &mut buffer, &mut received);
        });
        // What it said last may still be under way.
        if let Some(id) = connection {
            lan.drive("the end of the stream", |lan| {
                ended = ended || drain(lan, id, &mut buffer, &mut received);
                ended.then_some(())
            });
        }
        assert_eq!(blake3::hash(&received), blake3::hash(&sent), "v6: {v6}");
    }
    capture.check(2000);
}

/// Takes what is there; true at the end of the stream.
fn drain(lan: &mut Lan, id: SocketId, buffer: &mut [u8], into: &mut Vec<u8>) -> bool {
    while let Ok(Some(len)) = lan.stack.tcp_read(id, buffer) {
        if len == 0 {
            return true;
        }
        into.extend_from_slice(&buffer[..len]);
    }
    false
}
