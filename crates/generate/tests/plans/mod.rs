//! Plans as they are chosen for the examples.

use fusewire_generate::plan::*;

fn adu(name: &str, number: u8, ty: (&str, &str), from: u8, size_max: u64) -> AduPlan {
    AduPlan {
        name: name.into(),
        number,
        asn1: (ty.0.into(), ty.1.into()),
        from: Sender::Role(from),
        codec: Codec::Lws,
        size_bytes: (0, size_max),
        is_cut: size_max > 1400,
        resend: Resend::Selective,
        order: Order::All,
        after: Vec::new(),
        deadline_us: None,
        late: Late::Drop,
        fec: Vec::new(),
        bucket: None,
        playout: None,
        adapt: Vec::new(),
        rate_millihertz: None,
        bitrate_bits_per_s: None,
        reply: None,
        is_replayable: false,
        priority: 100,
        profile: Profile::Default,
        execution: Execution::Integrated,
    }
}

fn plan(name: &str, roles: [&str; 2], machine: Machine, adus: Vec<AduPlan>) -> Plan {
    let wire = adus.iter().flat_map(|adu| {
        let clause = |key: &str, value: String| WireClause {
            name: format!("adu.{}.{key}", adu.name),
            value,
        };
        let order = format!("{:?}", adu.order).to_lowercase();
        [clause("type", format!("{}.{}", adu.asn1.0, adu.asn1.1)), clause("order", order)]
    });
    Plan {
        name: name.into(),
        digest: [0; 32],
        wire: wire.collect(),
        roles: roles.map(Into::into),
        asn1: vec![format!("{name}.asn1")],
        peers: Peers::Pair,
        network: Network {
            rtt_us: (100, 200_000),
            rate_bytes_per_s: (1_250_000, 1_250_000_000),
            loss: 0.01,
            loss_burst: 1.0,
            jitter_us: 0,
            is_reserved: false,
        },
        machine,
        set_up: SetUp::Explicit,
        suite: Suite::Sealed,
        congestion: Congestion::Cubic,
        flow: Flow::Window,
        sum: Sum::Internet,
        acknowledge: Acknowledge::Delayed,
        device: Device::Udp,
        mtu_bytes: 1500,
        payload_bytes: 1400,
        ring_bytes: 2 << 20,
        memory_bytes: 4 << 20,
        is_nagle: true,
        dscp: 0,
        group: None,
        adus,
    }
}

pub fn bulk() -> Plan {
    let mut block = adu("Block", 0, ("Bulk", "Block"), 0, 65_552);
    (block.order, block.profile) = (Order::None, Profile::CapacitySeeking);
    let mut done = adu("Done", 1, ("Bulk", "Done"), 0, 8);
    done.after = vec![0];
    plan("bulk", ["source", "sink"], Machine::Tcp, vec![block, done])
}

pub fn rpc() -> Plan {
    let mut get = adu("Get", 0, ("Kv", "Get"), 0, 68);
    (get.order, get.reply) = (Order::None, Some(1));
    (get.deadline_us, get.late) = (Some(250_000), Late::Deliver);
    get.profile = Profile::LowLatencyInteractive;
    let mut got = adu("Got", 1, ("Kv", "Got"), 1, 1032);
    got.order = Order::None;
    let mut plan = plan("rpc", ["client", "server"], Machine::Xtp, vec![get, got]);
    (plan.set_up, plan.is_nagle, plan.sum) = (SetUp::Transaction, false, Sum::None);
    plan
}
