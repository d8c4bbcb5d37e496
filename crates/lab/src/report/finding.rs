//! The findings at the top of the report: each a sentence that code makes of the records. Where a record is
//! missing, the sentence says so.

use super::Entry;
use super::page::trimmed;
use crate::record::{At, Point, Record};

/// A line of finding.
pub struct Finding {
    /// What it comes to.
    pub head: String,
    /// The figures, and what the paper saw.
    pub text: String,
    /// The experiment that it comes from.
    pub from: &'static str,
    /// Whether there was a record.
    pub known: bool,
    /// Why the figures are not to be trusted far, if so.
    pub caution: Option<String>,
}

/// What it comes to, and the figures.
type Words = (String, String);
type Rule = fn(&Record) -> Option<Words>;

/// What can be said, in order, from which experiment.
const RULES: [(&str, Rule, &str); 14] = [
    ("braun-loops", gains, "where one loop gains"),
    ("braun-loops", losses, "where one loop does not gain"),
    ("braun-loops", memory, "how far from memory's bound one loop is"),
    ("braun-packets", packets, "what is left of it in a whole transfer"),
    ("braun-memory", accesses, "whether it saves accesses to memory, and misses of the cache"),
    ("ahlgren-figure-3", knee, "from how much state on one loop loses"),
    ("dabbous-codec", codec, "what a syntax of words gains over BER"),
    ("dabbous-checksums", checksums, "what rewriting XTP's checksum gains"),
    ("dabbous-xtp", xtp, "how XTP at user level compares with the kernel's TCP"),
    ("inca-processing", processing, "what one loop gains in protocol processing"),
    ("inca-messages", messages, "at which sizes UDP messages are faster at user level"),
    ("inca-overhead", overhead, "what software adds to a round trip"),
    ("maclean-throughput", outboard, "what bounds an outboard transport"),
    (
        "maclean-outboard",
        outboard_measured,
        "what an outboard of ours gains, and what its API takes",
    ),
];

/// Copies of a message by which one loop must move less before the report says that it moves less.
const SAVES: f64 = 0.05;

/// Bytes of MacLean and Barvick's packets.
const PACKET: f64 = 216.0;

/// All of them.
pub fn findings(entries: &[Entry]) -> Vec<Finding> {
    let one = |(from, rule, about): &(&'static str, Rule, &str)| {
        let record = entries.iter().find(|entry| entry.experiment.name == *from);
        let record = record.and_then(|entry| entry.record.as_ref());
        match record.and_then(rule) {
            Some((head, text)) => {
                Finding { head, text, from, known: true, caution: record.and_then(caution) }
            }
            None => {
                let head = "Not measured here yet:".to_owned();
                Finding { head, text: format!("{about}."), from, known: false, caution: None }
            }
        }
    };
    RULES.iter().map(one).collect()
}

fn caution(record: &Record) -> Option<String> {
    let noisy = record.noise.noisy;
    match (record.is_measured(), record.quick) {
        (false, _) => None,
        (_, true) if noisy => Some("A quick run on a noisy machine".to_owned()),
        (_, true) => Some("A quick run".to_owned()),
        _ => noisy.then(|| "The machine was noisy".to_owned()),
    }
}

/// Points of a chart.
fn of<'r>(record: &'r Record, chart: &str) -> impl Iterator<Item = &'r Point> {
    record.points.iter().filter(move |point| point.place.chart == chart)
}

/// The value of a series beside a name.
fn named(record: &Record, chart: &str, series: &str, at: &str) -> Option<f64> {
    let is = |p: &&Point| p.place.series == series && p.place.at == At::Name(at.to_owned());
    of(record, chart).find(is).map(|point| point.value)
}

/// The number that a point lies at.
fn number(point: &Point) -> Option<f64> {
    match point.place.at {
        At::Number(number) => Some(number),
        At::Name(_) => None,
    }
}

/// The value of a series at a number.
fn at(record: &Record, chart: &str, series: &str, x: f64) -> Option<f64> {
    let is = |p: &&Point| p.place.series == series && number(p) == Some(x);
    of(record, chart).find(is).map(|point| point.value)
}

/// The largest number of a chart.
fn last(record: &Record, chart: &str) -> Option<f64> {
    of(record, chart).filter_map(number).max_by(f64::total_cmp)
}

fn times(ratio: f64) -> String {
    let digits = if ratio < 9.95 { 2 } else { 0 };
    format!("{ratio:.digits$} times")
}

/// A part, with a unit that stays beside it.
fn percent(part: f64) -> String {
    format!("{:.0}\u{a0}%", part * 100.0)
}

/// How much less time is needed, when the other way needs `ratio` times as much.
fn less(ratio: f64) -> String {
    match 1.0 - 1.0 / ratio {
        part if part >= 0.0 => format!("{} less", percent(part)),
        part => format!("{} more", percent(-part)),
    }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        b if b >= 1048576.0 => format!("{} MiB", trimmed_whole(b / 1048576.0)),
        b if b >= 4096.0 => format!("{} KiB", trimmed_whole(b / 1024.0)),
        b => format!("{b:.0} bytes"),
    }
}

fn trimmed_whole(number: f64) -> String {
    if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Every pipeline, size and direction of the loops.
fn cases(record: &Record) -> Vec<(&Point, &'static str)> {
    let send = of(record, "gain-send").map(|point| (point, "sending"));
    let mut all: Vec<_> =
        send.chain(of(record, "gain-receive").map(|point| (point, "receiving"))).collect();
    all.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    all
}

fn case((point, way): &(&Point, &str)) -> String {
    let size = number(point).map_or(String::new(), bytes);
    format!("{}, {way} {size}", point.place.series)
}

fn gains(record: &Record) -> Option<Words> {
    let cases = cases(record);
    let gains = cases.iter().filter(|(point, _)| point.value > 1.1).count();
    let middle = cases.get(cases.len() / 2)?.0.value;
    let best = cases.last()?;
    Some((
        format!("One loop gains more than 10\u{a0}% in {gains} of {} cases.", cases.len()),
        format!(
            "A case is a pipeline, a size and a direction. One loop is {} as fast as separate passes in the middle and {} at \
             most ({}). Braun and Diot found 1.43 times for XDR and a sum, Clark and Tennenhouse up to 1.5.",
            times(middle),
            times(best.0.value),
            case(best)
        ),
    ))
}

fn losses(record: &Record) -> Option<Words> {
    let cases = cases(record);
    let worst = cases.first()?;
    let losses = cases.iter().filter(|(point, _)| point.value < 1.0 / 1.05).count();
    let little =
        cases.iter().filter(|(point, _)| (1.0 / 1.05..=1.1).contains(&point.value)).count();
    let strips = of(record, "blocked").filter(|point| point.value < 1.0 / 1.05).count();
    let mut losers: Vec<&str> = Vec::new();
    for (point, _) in cases.iter().filter(|(point, _)| point.value < 1.0 / 1.05) {
        if !losers.contains(&point.place.series.as_str()) {
            losers.push(&point.place.series);
        }
    }
    let losers = match losers.is_empty() {
        true => String::new(),
        false => format!(" ({})", losers.join(", ")),
    };
    Some((
        format!("It loses more than 5\u{a0}% in {losses}{losers}, and changes little in {little}."),
        format!(
            "The worst is {} as fast as passes ({}). Strips in the first-level cache beat it in {strips} of {} cases of \
             sending. The papers saw losses where state outgrows the registers, and little gain where the cipher takes most \
             of the time.",
            times(worst.0.value),
            case(worst),
            of(record, "blocked").count()
        ),
    ))
}

fn memory(record: &Record) -> Option<Words> {
    const COPY: &str = "memory: plain copy";
    let size = last(record, "rate")?;
    let copy = at(record, "rate", COPY, size)?;
    let mut parts: Vec<(f64, &str)> = of(record, "rate")
        .filter(|point| number(point) == Some(size) && point.place.series != COPY)
        .map(|point| (point.value / copy, point.place.series.as_str()))
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near = parts.iter().filter(|(part, _)| *part > 0.8).count();
    let (best, worst) = (parts.first()?, parts.last()?);
    let largest =
        record.machine.caches.iter().map(|(_, bytes)| *bytes as f64).max_by(f64::total_cmp);
    // Source and destination.
    let place = match largest {
        Some(cache) if cache > 2.0 * size => "Far out in the last cache",
        _ => "From memory",
    };
    let all = parts.len();
    Some((
        format!("{place}, {near} of {all} pipelines run at four fifths of a copy's speed or more."),
        format!(
            "With messages of {} a plain copy moves {copy:.1} GB/s; what comes near that is bound by bytes that move, not by what is \
             done to them. Nearest is {} ({}), farthest {} ({}).",
            bytes(size),
            best.1,
            percent(best.0),
            worst.1,
            percent(worst.0)
        ),
    ))
}

fn packets(record: &Record) -> Option<Words> {
    // The text's size, where it was measured.
    let sizes = || of(record, "gain-send").filter_map(number);
    let size = sizes().find(|size| *size == 1024.0).or(last(record, "gain-send"))?;
    let gain = |chart: &str, machine: &str| at(record, chart, machine, size);
    let here = |chart: &str| gain(chart, "this machine");
    let (send, receive) = (less(here("gain-send")?), less(here("gain-receive")?));
    let paper = match size {
        1024.0 => "24 and 20\u{a0}% less, 1.18 times as much",
        _ => "21 and 22\u{a0}% less, 1.21 times as much, of 1280 bytes",
    };
    Some((
        format!("In a whole transfer one loop takes {send} time to send and {receive} to receive."),
        format!(
            "That is user-level time of packets of {} on loopback: words put into network order, enciphered and summed; {} as \
             much goes through. Braun and Diot, with XDR, on a SPARCstation 20-60: {paper}.",
            bytes(size),
            times(here("gain-throughput")?)
        ),
    ))
}

fn accesses(record: &Record) -> Option<Words> {
    let saved = |way: &str| named(record, "saved", "this machine, portable", way);
    let misses = |series: &str, way: &str| {
        let end = format!(": portable, {way}");
        let is = |p: &&Point| {
            let name = matches!(&p.place.at, At::Name(name) if name.starts_with("SuperSPARC") && name.ends_with(&end));
            p.place.series == series && name
        };
        of(record, "misses").find(is).map(|point| point.value)
    };
    let (one, passes) = (misses("ILP", "receive")?, misses("non-ILP", "receive")?);
    let (sent, received) = (saved("send")?, saved("receive")?);
    let bytes = match (sent > SAVES, received > SAVES) {
        (true, true) => "One loop reads and writes fewer bytes",
        (true, false) => "One loop reads and writes fewer bytes when sending only",
        (false, true) => "One loop reads and writes fewer bytes when receiving only",
        (false, false) => "One loop does not read and write fewer bytes",
    };
    let misses = match one < passes {
        true => "it misses the cache less often",
        false => "it does not miss the cache less often",
    };
    let copies = |saved: f64| match saved >= 0.0 {
        true => format!("{saved:.1} copies less"),
        false => format!("{:.1} copies more", -saved),
    };
    Some((
        format!("{bytes}; {misses}."),
        format!(
            "At the portable level it moves {} of a message when sending and {} when receiving; in the paper more than 4 and 3 \
             copies less. With the paper's SuperSPARC cache, in which a write that misses brings no line, {one:.2}\u{a0}% of the \
             accesses miss in one loop and {passes:.2}\u{a0}% in passes when receiving (18.7 and 4.7 in the paper).",
            copies(sent),
            copies(received),
        ),
    ))
}

/// Runs of neighbours among measured states that pass, as words.
fn runs(ratios: &[(f64, f64)], is: impl Fn(f64) -> bool) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, _) in ratios.iter().enumerate().filter(|(_, (_, ratio))| is(*ratio)) {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == i => *to = i,
            _ => runs.push((i, i)),
        }
    }
    let state = |i: usize| format!("{:.0}", ratios[i].0);
    let words = runs.iter().map(|&(from, to)| match to - from {
        0 => state(from),
        1 => format!("{} and {}", state(from), state(to)),
        _ => format!("{} to {}", state(from), state(to)),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn knee(record: &Record) -> Option<Words> {
    let mut ratios: Vec<(f64, f64)> =
        of(record, "ratio").filter_map(|point| Some((number(point)?, point.value))).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let by_cost = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
    let (worst, best) = (ratios.iter().max_by(by_cost)?, ratios.iter().min_by(by_cost)?);
    let loses = runs(&ratios, |ratio| ratio > 1.05);
    let gains = runs(&ratios, |ratio| ratio < 0.95);
    let head = match (loses.is_empty(), gains.is_empty()) {
        (false, false) => format!(
            "State decides: one loop of three functions loses with {loses} words each, gains with {gains}."
        ),
        (false, true) => {
            format!("State decides: one loop of three functions loses with {loses} words each.")
        }
        (true, false) => {
            format!("One loop of three functions gains with {gains} words of state each.")
        }
        (true, true) => "State of three functions makes no difference of 5\u{a0}%.".to_owned(),
    };
    Some((
        head,
        format!(
            "It takes {} the time of three loops with {:.0} words and {} with {:.0}. On the paper's machine it gains up to 5 words \
             and loses beyond.",
            times(worst.1),
            worst.0,
            times(best.1),
            best.0
        ),
    ))
}

fn codec(record: &Record) -> Option<Words> {
    let ratio = |of: &str| named(record, "table-2", "this machine, LWS32", of);
    let kinds = [
        ("integers", ratio("ints")?),
        ("reals", ratio("reals")?),
        ("strings", ratio("strings")?),
        ("envelopes", ratio("mpdus")?),
    ];
    let names = |gains: bool| {
        let of = kinds.iter().filter(|(_, ratio)| (*ratio > 1.05) == gains);
        of.map(|(name, _)| *name).collect::<Vec<_>>().join(" and ")
    };
    let head = match (names(true), names(false)) {
        (gaining, _) if gaining.is_empty() => "Words gain nothing over BER.".to_owned(),
        (_, others) if others.is_empty() => "Words gain over BER.".to_owned(),
        (gaining, others) => format!("Words gain over BER for {gaining}, not for {others}."),
    };
    let [ints, reals, strings, mpdus] = kinds.map(|(_, ratio)| times(ratio));
    Some((
        head,
        format!(
            "A syntax of 32-bit words encodes integers {ints}, reals {reals}, strings {strings} and message envelopes {mpdus} as \
             fast as BER. Dabbous found 4.5, 5.9, 1.4 and 1.6 times before BER was optimised; after, BER encoded envelopes no \
             slower than words on four of five machines."
        ),
    ))
}

fn checksums(record: &Record) -> Option<Words> {
    let gain = |form: &str| named(record, "table-6", "this machine", form);
    let op4 = times(gain("op4")?);
    Some((
        format!("Long words make XTP's checksum {op4} as fast."),
        format!(
            "That is the paper's fourth step (op4) beside the standard's loop, with words of 64 bits; vectors make it {}. \
             Dabbous found 13 to 25 times with words of 32 bits, on four machines.",
            times(gain("vectors")?)
        ),
    ))
}

fn xtp(record: &Record) -> Option<Words> {
    let most = |series: &str| {
        let rates = ["throughput", "table-8"].into_iter().flat_map(|chart| of(record, chart));
        rates.filter(|p| p.place.series == series).map(|p| p.value).max_by(f64::total_cmp)
    };
    let by_tcp = |network: &str| {
        Some(most(&format!("XTP, {network}"))? / most(&format!("kernel TCP, {network}"))?)
    };
    let gain = |network: &str| at(record, "gain", &format!("XTP, {network}"), 16_384.0);
    let (ethernet, fddi) = (by_tcp("Ethernet")?, by_tcp("FDDI")?);
    Some((
        format!(
            "XTP at user level carries {ethernet:.2} and {fddi:.2} times what the kernel's TCP does in packets of Ethernet's and \
             FDDI's size."
        ),
        format!(
            "The best of all ADUs of each, checked by CXOR beside a checksum that loopback spares TCP. With ADUs of 16,384 bytes \
             {:.2} and {:.2} times as much goes through as with 2,000. Dabbous found 0.99 and 1.02 times TCP, and 1.02 and 1.18 \
             times with long ADUs.",
            gain("Ethernet")?,
            gain("FDDI")?
        ),
    ))
}

fn processing(record: &Record) -> Option<Words> {
    let gain =
        |protocol: &str, size| at(record, "gain", &format!("{protocol}, this machine"), size);
    let (short, long, tcp) = (gain("UDP", 200.0)?, gain("UDP", 1000.0)?, gain("TCP", 1000.0)?);
    Some((
        format!(
            "Passes take {} as long as one loop to process a UDP packet of 1000 bytes.",
            times(long)
        ),
        format!(
            "One of 200 bytes {}, a TCP segment of 1000 bytes {}. INCA's 49 and 26 times for UDP packets of 200 and 1000 bytes are \
             over a kernel of 1996, system call and interrupts with it.",
            times(short),
            times(tcp)
        ),
    ))
}

fn messages(record: &Record) -> Option<Words> {
    let mut ratios: Vec<(f64, f64)> = of(record, "gain")
        .filter(|point| point.place.series == "UDP, this machine")
        .filter_map(|point| Some((number(point)?, point.value)))
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (shortest, longest) = (ratios.first()?, ratios.last()?);
    let sizes = |is: fn(f64) -> bool| {
        let of = ratios.iter().filter(|(_, ratio)| is(*ratio));
        of.map(|(size, _)| bytes(*size)).collect::<Vec<_>>().join(", ")
    };
    let (faster, slower) = (sizes(|ratio| ratio > 1.05), sizes(|ratio| ratio < 1.0 / 1.05));
    let head = match (faster.is_empty(), slower.is_empty()) {
        (false, true) => format!("At user level UDP messages of {faster} are received faster."),
        (false, false) => {
            format!(
                "At user level UDP messages of {faster} are received faster, of {slower} slower."
            )
        }
        (true, false) => format!("At user level UDP messages of {slower} are received slower."),
        (true, true) => {
            "UDP messages are received as fast at user level as by the kernel.".to_owned()
        }
    };
    let text = format!(
        "Messages of {} are received {} as fast as through the kernel's sockets with one message per call, messages of {} {}. \
         INCA found 2.7 to 5.9 times on Linux 2.0, with the largest gain at 65,000 bytes.",
        bytes(shortest.0),
        times(shortest.1),
        bytes(longest.0),
        times(longest.1),
    );
    Some((head, text))
}

fn overhead(record: &Record) -> Option<Words> {
    let here = "TAP and veth, 64 bytes";
    let cost = |series: &str| named(record, "cost", series, here);
    let (kernel, ours) = (cost("kernel")?, cost("user level")?);
    Some((
        format!(
            "A round trip of 64 bytes takes {} the device's own time at user level and {} by the kernel.",
            times(ours),
            times(kernel)
        ),
        "The device is a TAP; both ends of it spin, and the kernel's programs sleep. INCA's kernel took 3.6 times the network's \
         own time on Ethernet and 182 times on Myrinet."
            .to_owned(),
    ))
}

fn outboard(record: &Record) -> Option<Words> {
    let rates = || of(record, "figure-5-packets").filter(|p| p.place.series == "120 ns a word");
    let most = rates().map(|point| point.value).max_by(f64::total_cmp)?;
    let flat =
        rates().filter(|p| p.value > most * 0.999).filter_map(number).max_by(f64::total_cmp)?;
    Some((
        "By the paper's own times an outboard transport is bound by the protocol, not by memory."
            .to_owned(),
        format!(
            "This is MacLean and Barvick's model with their constants, 66 µs a packet and 120 ns a word, and no finding of \
             this machine: it holds up to payloads of about {:.0} bytes, at {} packets a second (they measured more than \
             15,000).",
            (flat / 100.0).round() * 100.0,
            trimmed(most)
        ),
    ))
}

fn outboard_measured(record: &Record) -> Option<Words> {
    const CHART: &str = "figure-5-packets";
    let mut rates: Vec<(f64, f64)> = of(record, CHART)
        .filter(|point| point.place.series == "near memory")
        .filter_map(|point| Some((number(point)?, point.value)))
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    // As long as a packet takes at most half as long again as the shortest, it is the protocol's time.
    let most = rates.first()?.1;
    let flat = rates.iter().take_while(|(_, rate)| *rate > most / 1.5).last()?.0;
    let far = of(record, CHART).filter(|point| point.place.series == "far memory");
    let slowest = far
        .filter_map(|point| {
            let near = rates.iter().find(|(at, _)| Some(*at) == number(point))?.1;
            Some(near / point.value)
        })
        .max_by(f64::total_cmp)?;
    let bar = |chart: &str, at: &str| named(record, chart, "this machine", at);
    let (header, transport) =
        (bar("figure-4", "header")?, bar("figure-4", "transport, header with it")?);
    let sides = bar("sides", "transmitter")? / bar("sides", "receiver")?;
    let message = last(record, "figure-6")?;
    let part = |series: &str, x| Some(at(record, "figure-6", series, x)? / 100.0);
    Some((
        format!(
            "The protocol bounds our outboard up to payloads of {}, memory beyond.",
            bytes(flat)
        ),
        format!(
            "A packet's transport takes {transport:.0} ns, {header:.0} of them its header (66,000 and 13,000 in the paper); from \
             memory that is not in the cache a packet takes up to {} as long. Its sender takes {} the receiver's time, 1.5 in \
             the paper. Of an operation of {} the API takes {} when nobody sleeps, {} when both do; of one of {} it is {} and \
             {} (25\u{a0}% in the paper, with UNIX).",
            times(slowest),
            times(sides),
            bytes(PACKET),
            percent(part("spinning", PACKET)?),
            percent(part("sleeping", PACKET)?),
            bytes(message),
            percent(part("spinning", message)?),
            percent(part("sleeping", message)?),
        ),
    ))
}
