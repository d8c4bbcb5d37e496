//! Every target, one file each.

use crate::Target;

mod asn1;
mod asn1_dump;
mod asn1_values;
mod ber;
mod calls;
mod capture;
mod contexts;
mod datagrams;
mod fec;
mod handshake;
mod interface_packets;
mod ip_stack;
mod jer;
mod lws;
mod mpdu;
mod neighbors;
mod net_layer;
mod oer;
mod opened;
mod outboard_commands;
mod outboard_messages;
mod outboard_rings;
mod outboard_rules;
mod pcapng_read;
mod reassembly;
mod record;
mod request_messages;
mod rpc;
mod server_requests;
mod shm_hello;
mod shm_ring;
mod specification;
mod stack_frames;
mod tcp_input;
mod text;
mod transfer;
mod view;
mod wire_headers;
mod xdr;
mod xdr_language;
mod xtp_group;
mod xtp_input;
mod xtp_packet;
mod xtp_single;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "asn1", run: asn1::run, seeds: asn1::seeds },
    Target { name: "asn1_dump", run: asn1_dump::run, seeds: asn1_dump::seeds },
    Target { name: "asn1_values", run: asn1_values::run, seeds: asn1_values::seeds },
    Target { name: "ber", run: ber::run, seeds: ber::seeds },
    Target { name: "calls", run: calls::run, seeds: calls::seeds },
    Target { name: "capture", run: capture::run, seeds: capture::seeds },
    Target { name: "contexts", run: contexts::run, seeds: contexts::seeds },
    Target { name: "datagrams", run: datagrams::run, seeds: datagrams::seeds },
    Target { name: "fec", run: fec::run, seeds: fec::seeds },
    Target { name: "handshake", run: handshake::run, seeds: handshake::seeds },
    Target {
        name: "interface_packets",
        run: interface_packets::run,
        seeds: interface_packets::seeds,
    },
    Target { name: "ip_stack", run: ip_stack::run, seeds: ip_stack::seeds },
    Target { name: "jer", run: jer::run, seeds: jer::seeds },
    Target { name: "lws", run: lws::run, seeds: lws::seeds },
    Target { name: "mpdu", run: mpdu::run, seeds: mpdu::seeds },
    Target { name: "neighbors", run: neighbors::run, seeds: neighbors::seeds },
    Target { name: "net_layer", run: net_layer::run, seeds: net_layer::seeds },
    Target { name: "oer", run: oer::run, seeds: oer::seeds },
    Target { name: "opened_lws", run: opened::lws, seeds: opened::lws_seeds },
    Target { name: "opened_oer", run: opened::oer, seeds: opened::oer_seeds },
    Target { name: "opened_xdr", run: opened::xdr, seeds: opened::xdr_seeds },
    Target {
        name: "outboard_commands",
        run: outboard_commands::run,
        seeds: outboard_commands::seeds,
    },
    Target {
        name: "outboard_messages",
        run: outboard_messages::run,
        seeds: outboard_messages::seeds,
    },
    Target { name: "outboard_rings", run: outboard_rings::run, seeds: outboard_rings::seeds },
    Target { name: "outboard_rules", run: outboard_rules::run, seeds: outboard_rules::seeds },
    Target { name: "pcapng_read", run: pcapng_read::run, seeds: pcapng_read::seeds },
    Target { name: "reassembly", run: reassembly::run, seeds: reassembly::seeds },
    Target { name: "record", run: record::run, seeds: record::seeds },
    Target { name: "request_messages", run: request_messages::run, seeds: request_messages::seeds },
    Target { name: "rpc", run: rpc::run, seeds: rpc::seeds },
    Target { name: "server_requests", run: server_requests::run, seeds: server_requests::seeds },
    Target { name: "shm_hello", run: shm_hello::run, seeds: shm_hello::seeds },
    Target { name: "shm_ring", run: shm_ring::run, seeds: shm_ring::seeds },
    Target { name: "specification", run: specification::run, seeds: specification::seeds },
    Target { name: "stack_frames", run: stack_frames::run, seeds: stack_frames::seeds },
    Target { name: "tcp_input", run: tcp_input::run, seeds: tcp_input::seeds },
    Target { name: "text", run: text::run, seeds: text::seeds },
    Target { name: "transfer", run: transfer::run, seeds: transfer::seeds },
    Target { name: "view", run: view::run, seeds: view::seeds },
    Target { name: "wire_headers", run: wire_headers::run, seeds: wire_headers::seeds },
    Target { name: "xdr", run: xdr::run, seeds: xdr::seeds },
    Target { name: "xdr_language", run: xdr_language::run, seeds: xdr_language::seeds },
    Target { name: "xtp_group", run: xtp_group::run, seeds: xtp_group::seeds },
    Target { name: "xtp_input", run: xtp_input::run, seeds: xtp_input::seeds },
    Target { name: "xtp_packet", run: xtp_packet::run, seeds: xtp_packet::seeds },
    Target { name: "xtp_single", run: xtp_single::run, seeds: xtp_single::seeds },
];
