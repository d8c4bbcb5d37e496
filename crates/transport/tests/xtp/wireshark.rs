//! What leaves is what Wireshark takes for XTP: all packets of runs, read by its dissector.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, wireshark};
use fusewire_transport::machine::Cut;
use fusewire_transport::xtp::group::SenderConfig;
use fusewire_transport::xtp::{Config, Rate};
use fusewire_wire::xtp::{Format, NUMBER, Service};

use crate::account::{Scenario, Told, World, assert_graceful};
use crate::group::world as group;
use crate::loss;
use crate::thin::{link, sends};
use crate::two_ends::App;

fn config(random: &mut Random) -> Config {
    loss::patient(Config {
        messages: true,
        btag: true,
        edge: true,
        cxor: random.chance(0.5),
        sort: random.chance(0.5).then_some(0x1234),
        in_rate: Rate { rate: 1_000_000, burst: 20_000 },
        ..Config::default()
    })
}

/// The packets that left.
fn recorded(world: &mut World) -> Vec<Vec<u8>> {
    world.recorded.take().unwrap_or_default().into_iter().map(|frame| frame.bytes).collect()
}

/// All packets of a transfer both ways over a bad link.
fn packets(random: &mut Random) -> Vec<Vec<u8>> {
    let bad =
        Impairments { loss: 0.1, reorder: 0.1, reorder_delay: Duration::from_millis(20), ..link() };
    let app = App { adu: 1..3000, cut: Cut::Record, ..sends(60_000) };
    let scenario = Scenario {
        client: config(random),
        server: config(random),
        client_app: app.clone(),
        server_app: app,
        links: [bad.clone(), bad],
        told: Told { overtaking: true, ..Told::default() },
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, random);
    world.recorded = Some(Vec::new());
    world.run();
    assert_graceful(&world);
    recorded(&mut world)
}

#[test]
fn every_packet_of_a_transfer_is_read_without_complaint() {
    let mut random = Random::new(36);
    let mut all: Vec<_> = (0..4).flat_map(|_| packets(&mut random)).collect();
    let refused = Scenario {
        told: Told { refuses: true, ..Told::default() },
        client_app: sends(9),
        links: [link(), link()],
        ..Scenario::default()
    };
    let mut world = World::new(&refused, &mut random);
    world.recorded = Some(Vec::new());
    world.run();
    all.extend(recorded(&mut world));
    for format in
        [Format::Data, Format::Cntl, Format::First, Format::Ecntl, Format::Tcntl, Format::Diag]
    {
        assert!(all.iter().any(|bytes| bytes[11] & 31 == format as u8), "no {format:?}");
    }
    is_read("xtp-machine", &all);
}

/// All of them are read, and nothing of them is called malformed.
fn is_read(name: &str, all: &[Vec<u8>]) {
    let packets: Vec<_> = all.iter().map(|bytes| wireshark::ipv4(NUMBER, bytes)).collect();
    let names = ["xtp.key", "xtp.seq", "xtp.checksum.status", "_ws.malformed"];
    let Some(rows) = wireshark::fields(name, &packets, &[], &names) else { return };
    assert_eq!(rows.len(), all.len());
    for (row, bytes) in rows.iter().zip(all) {
        let key: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let seq = u64::from_be_bytes(bytes[24..32].try_into().unwrap());
        assert_eq!(row[0], format!("0x{key}"));
        assert_eq!(row[1], seq.to_string());
        assert_eq!((row[2].as_str(), row[3].as_str()), ("1", ""), "{bytes:02x?}");
    }
    println!("{} packets", rows.len());
}

/// Members that come and go, are refused, vanish and are left behind; and a group that nobody answers.
#[test]
fn every_packet_of_a_group_is_read_without_complaint() {
    let mut random = Random::new(37);
    let bad = Impairments {
        loss: 0.1,
        reorder: 0.1,
        reorder_delay: Duration::from_millis(5),
        delay: Duration::from_millis(5),
        ..Impairments::default()
    };
    let member = || group::Plan { links: [bad.clone(), bad.clone()], ..group::Plan::default() };
    let mut all = Vec::new();
    for service in [Service::Multicast, Service::UnacknowledgedMulticast] {
        let plans = vec![
            member(),
            group::Plan { leaves_after: Some(4), ..member() },
            group::Plan { denied: true, ..member() },
            group::Plan { killed_after: Some(Duration::from_secs(1)), ..member() },
            group::Plan { takes: Some(5_000), ..member() },
            group::Plan { joins_after: Duration::from_millis(700), ..member() },
        ];
        let plans = if service == Service::Multicast { plans } else { plans[..1].to_vec() };
        let scenario = group::Scenario { plans, ..group::Scenario::default() };
        let sender = SenderConfig { service, ..scenario.sender.clone() };
        let mut world = group::World::new(&group::Scenario { sender, ..scenario }, &mut random);
        world.keeps_packets = true;
        world.run();
        all.extend(world.packets.into_iter().map(|frame| frame.bytes));
    }
    for format in
        [Format::Data, Format::Cntl, Format::First, Format::Ecntl, Format::Jcntl, Format::Diag]
    {
        assert!(all.iter().any(|bytes| bytes[11] & 31 == format as u8), "no {format:?}");
    }
    is_read("xtp-group", &all);
}
