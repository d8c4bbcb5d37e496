//! Connections whose transport is XTP.

mod support;

use fusewire_stack::Config;
use fusewire_transport::either::{self, Protocol};
use support::{content, pair};

#[test]
fn adus_go_both_ways_over_xtp() {
    let transport = either::Config::of_records(Protocol::Xtp);
    let pair = pair(&Config { transport, ..Config::default() });
    let (client, server) = pair.connect();
    let adus: Vec<_> = (0..64).map(|n| content(n, 1 + n * 700)).collect();
    std::thread::scope(|s| {
        s.spawn(|| {
            for adu in &adus {
                client.send(adu).unwrap();
            }
            client.finish().unwrap();
        });
        for adu in &adus {
            assert_eq!(server.recv_adu().unwrap().as_ref(), Some(adu));
        }
        assert_eq!(server.recv_adu().unwrap(), None);
        server.finish().unwrap();
    });
}
