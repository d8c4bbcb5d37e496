//! What ends hold of memory, as `fusewire-service` makes them: what a choice counts with, refuses by, and says.

use super::{datagrams, group};
use crate::choice::rank::STREAM_RING_BYTES;
use crate::plan::{AduPlan, Fec, Machine, Plan};

/// Bytes of what has come over a stream and was not taken, at most.
pub const STREAM_WINDOW_BYTES: u64 = 4 << 20;
/// Bytes of a record beside its ADU, and no fewer.
const RECORD: u64 = 260;
/// ADUs that wait to be sent as datagrams (`Profile::ADUS`).
const ADUS: u64 = 32;
/// The endpoint of a session, with its socket and its connection before anything was sent.
const SESSION_BYTES: u64 = 1 << 20;
/// The socket of a stream of a group, and what is read from it at once.
const GROUP_SOCKET_BYTES: u64 = 832 << 10;
/// Calls that are under way or whose answers wait, and requests that wait, at most (`stack::calls`).
const CALLS: u64 = 256;
/// ADUs of a type that are put together from parity at once.
const BLOCKS: u64 = 4;
/// Of what restores more than one packet: a number for each that there might be.
const CODEC_BYTES: u64 = 128 << 10;
/// Bytes before an ADU in a record to a group.
const GROUP_HEAD: u64 = 16;
/// The most of what is made for a group while a receiver is waited for.
const GROUP_BUFFER_MAX: u64 = 32 << 20;
/// Queues and lists of an end over datagrams, whose lengths no clause changes: more than half of it is what NADA knows of packets.
const LISTS_BYTES: u64 = 288 << 10;

/// Bytes of all buffers that the end of a role has at most, in one association: what `memory_kib` is held against. Beside it there
/// are tables of the process, and at a group's sender a connection for each receiver.
pub fn of_end(plan: &Plan, role: usize) -> u64 {
    let own = match plan.machine {
        Machine::Tcp | Machine::Xtp => streamed(plan) + calls(plan),
        Machine::Datagram => {
            let beside = if datagrams::has_beside(plan) { streamed(plan) } else { 0 };
            datagram_end(plan, role) + beside
        }
        Machine::Group => {
            let of_stream = |bytes: u64| match (bytes, role) {
                (0, _) => 0,
                // Who sends has each message in one piece, of which the longest may reach beyond the end of its ring.
                (bytes, 0) => bytes + bytes / 4 + GROUP_SOCKET_BYTES,
                (bytes, _) => bytes + GROUP_SOCKET_BYTES,
            };
            // What is read, and of each type the newest that waits.
            let waits: u64 = plan.adus.iter().map(|adu| adu.size_bytes.1 + RECORD).sum();
            let longest = longest_streamed(plan);
            of_stream(group_stream(plan)) + of_stream(group_once(plan)) + longest + waits
        }
    };
    own + SESSION_BYTES
}

/// The same of the end that has more.
pub fn most(plan: &Plan) -> u64 {
    of_end(plan, 0).max(of_end(plan, 1))
}

/// The longest ADU that goes in a stream, which lies there as a whole.
fn longest_streamed(plan: &Plan) -> u64 {
    let streamed = plan
        .adus
        .iter()
        .filter(|adu| plan.machine != Machine::Datagram || datagrams::is_beside(plan, adu));
    streamed.map(|adu| adu.size_bytes.1 + RECORD).max().unwrap_or(0)
}

/// Bytes of a stream: what is sent and what has come, what is read, and the one before it, which its reader borrows.
fn streamed(plan: &Plan) -> u64 {
    ring(plan) + window(plan) + 2 * longest_streamed(plan)
}

/// Bytes that a stream sends before they are acknowledged.
fn ring(plan: &Plan) -> u64 {
    STREAM_RING_BYTES.max(longest_streamed(plan))
}

/// Bytes of what has come over a stream and was not taken.
fn window(plan: &Plan) -> u64 {
    STREAM_WINDOW_BYTES.max(longest_streamed(plan))
}

/// Bytes of calls: as many as may be under way, each with its request and its answer.
fn calls(plan: &Plan) -> u64 {
    let call = |adu: &AduPlan| {
        let answer = &plan.adus[usize::from(adu.reply?)];
        Some(adu.size_bytes.1 + answer.size_bytes.1 + 2 * RECORD)
    };
    CALLS * plan.adus.iter().filter_map(call).max().unwrap_or(0)
}

/// What the ends hold, in words.
pub fn words(plan: &Plan) -> String {
    let kib = |bytes: u64| format!("{} KiB", bytes.div_ceil(1024));
    match plan.machine {
        Machine::Tcp | Machine::Xtp => {
            let (ring, window, calls) = (ring(plan), window(plan), calls(plan));
            let whose = match window > STREAM_WINDOW_BYTES || ring > STREAM_RING_BYTES {
                true => "by the longest ADU",
                false => "those of every stream, whatever clauses say",
            };
            let mut says = format!(
                "{} to send from, and up to {} of what has come and was not taken: {whose}",
                kib(ring),
                kib(window)
            );
            if calls > 0 {
                says += &format!("; up to {} of {CALLS} calls under way", kib(calls));
            }
            if plan.ring_bytes > ring {
                says += &format!("; to fill the fastest path would take {}", kib(plan.ring_bytes));
            }
            says
        }
        Machine::Datagram => {
            let [first, second] = [0, 1].map(|role| kib(datagram_end(plan, role)));
            let [a, b] = &plan.roles;
            let says = match first == second {
                true => format!("{first} of each end"),
                false => format!("{first} of {a}, {second} of {b}"),
            };
            let has_codec = plan.adus.iter().any(|adu| repairs(adu) > 1);
            let tables = if has_codec { ", and some 9 MiB of tables of a process" } else { "" };
            let stream = match datagrams::has_beside(plan) {
                true => format!(
                    ", which has {} for what it sends beside them, and up to {} of what has come and was not taken",
                    kib(ring(plan)),
                    kib(window(plan))
                ),
                false => String::new(),
            };
            format!(
                "{says}, by the longest ADUs that may wait{tables}; beside the connection that opens the session{stream}"
            )
        }
        Machine::Group => {
            let once = match group_once(plan) {
                0 => String::new(),
                once => format!("; {} of what is sent once", kib(once)),
            };
            let says =
                "to send again from what goes again, and as much at each receiver to take it into";
            format!("some {} {says}{once}", kib(group_stream(plan)))
        }
    }
}

/// Bytes of the stream of a group in which what is sent goes again: what must wait, four of the longest messages, and what is
/// made while a receiver is waited for.
pub fn group_stream(plan: &Plan) -> u64 {
    let Some(longest) = longest_of_group(plan, true) else { return 0 };
    let meanwhile = group::rates(plan).map_or(0, |[again, _]| u64::from(again) / 2 * 7);
    group::buffer(plan).max(4 * (longest + GROUP_HEAD + 256)).max(meanwhile.min(GROUP_BUFFER_MAX))
}

/// Bytes of the other stream of a group.
pub fn group_once(plan: &Plan) -> u64 {
    let longest = longest_of_group(plan, false);
    longest.map_or(0, |longest| group::BUFFER_MIN.max(4 * (longest + GROUP_HEAD + 256)))
}

fn longest_of_group(plan: &Plan, is_resent: bool) -> Option<u64> {
    let its = plan.adus.iter().filter(|adu| group::is_resent(adu) == is_resent);
    its.map(|adu| adu.size_bytes.1).max()
}

/// Bytes of an end over datagrams.
pub fn datagram_end(plan: &Plan, role: usize) -> u64 {
    let lanes = || plan.adus.iter().filter(|adu| !datagrams::is_beside(plan, adu));
    let sends = || lanes().filter(|adu| adu.from.is(role));
    let takes = lanes().filter(|adu| adu.from.is(1 - role));
    let longest = sends().map(|adu| adu.size_bytes.1).max().unwrap_or(0);
    let kept: u64 = sends().map(|adu| datagrams::kept(plan, adu)).sum();
    let slots = (ADUS + sends().count() as u64 + kept + 1) * longest;
    let sent: u64 = sends().map(|adu| sending(plan, adu)).sum();
    let taken: u64 = takes.map(|adu| taking(plan, adu)).sum();
    slots + sent + taken + LISTS_BYTES
}

/// Packets of parity behind an ADU, at most.
fn repairs(adu: &AduPlan) -> u64 {
    let of = adu.fec.iter().map(|step| match step.fec {
        Fec::None | Fec::Copy { .. } => 0,
        Fec::Xor => 1,
        Fec::ReedSolomon { parity } => u64::from(parity),
    });
    of.max().unwrap_or(0)
}

fn packets(plan: &Plan, adu: &AduPlan) -> u64 {
    adu.size_bytes.1.div_ceil(datagrams::piece(plan, adu).max(1)).max(1)
}

/// Of a type that is sent, beside what waits: copies, or parity and what the codec works in.
fn sending(plan: &Plan, adu: &AduPlan) -> u64 {
    let mtu = u64::from(plan.mtu_bytes);
    let copy = adu.fec.iter().find_map(|step| match step.fec {
        Fec::Copy { distance } => Some((u64::from(distance) + 1) * mtu),
        _ => None,
    });
    let parity = match repairs(adu) {
        0 => 0,
        repairs => {
            let works = packets(plan, adu).next_multiple_of(repairs.next_power_of_two());
            (repairs + 1 + works) * mtu
        }
    };
    copy.unwrap_or(parity)
}

/// Of a type that is taken: ADUs that are put together or held, and packets that wait for others to be restored.
fn taking(plan: &Plan, adu: &AduPlan) -> u64 {
    let mtu = u64::from(plan.mtu_bytes);
    let held = datagrams::window(plan, adu) * adu.size_bytes.1;
    let blocks = match repairs(adu) {
        0 => 0,
        repairs => {
            let packets = packets(plan, adu);
            let works = (packets + repairs.next_power_of_two()).next_power_of_two();
            let codec = if repairs > 1 { CODEC_BYTES } else { 0 };
            (BLOCKS * (packets + repairs) + 1 + works) * mtu + codec
        }
    };
    held + blocks
}
