//! The findings at the top of the report: each a sentence that code makes of the records. Where a record is
//! missing, the sentence says so.

use super::Entry;
use super::page::trimmed;
use crate::record::{At, Point, Record};

/// A line of finding.
pub struct Finding {
    /// The sentence.
    pub text: String,
    /// The experiment that it comes from.
    pub from: &'static str,
    /// Whether there was a record.
    pub known: bool,
}

type Rule = fn(&Record) -> Option<String>;

/// What can be said, in order, from which experiment.
const RULES: [(&str, Rule, &str); 10] = [
    ("braun-loops", gains, "where one loop gains"),
    ("braun-loops", losses, "where one loop does not gain"),
    ("braun-loops", memory, "how far from memory's bound one loop is"),
    ("braun-packets", packets, "what is left of it in a whole transfer"),
    ("braun-memory", accesses, "what it saves in accesses to memory, and in misses of the cache"),
    ("ahlgren-figure-3", knee, "from how much state on one loop loses"),
    ("dabbous-codec", codec, "what a syntax of words gains over BER"),
    ("dabbous-checksums", checksums, "what rewriting XTP's checksum gains"),
    ("inca-processing", processing, "what one loop gains in protocol processing"),
    ("maclean-throughput", outboard, "what bounds an outboard transport"),
];

/// Ten lines.
pub fn findings(entries: &[Entry]) -> Vec<Finding> {
    let one = |(from, rule, about): &(&'static str, Rule, &str)| {
        let record = entries.iter().find(|entry| entry.experiment.name == *from);
        let record = record.and_then(|entry| entry.record.as_ref());
        match record.and_then(rule) {
            Some(text) => Finding { text, from, known: true },
            None => {
                Finding { text: format!("Not measured here yet: {about}."), from, known: false }
            }
        }
    };
    RULES.iter().map(one).collect()
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

/// How much shorter the time is.
fn percent_less(ratio: f64) -> String {
    format!("{:.0} %", (1.0 - 1.0 / ratio) * 100.0)
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

fn gains(record: &Record) -> Option<String> {
    let cases = cases(record);
    let gains = cases.iter().filter(|(point, _)| point.value > 1.1).count();
    let middle = cases.get(cases.len() / 2)?.0.value;
    let best = cases.last()?;
    Some(format!(
        "One loop is more than 10 % faster than separate passes in {gains} of {} cases (pipeline, size, \
         direction), {} as fast in the middle and {} at most ({}). Clark and Tennenhouse, and Braun and Diot, \
         found up to 1.5 times in loops alone.",
        cases.len(),
        times(middle),
        times(best.0.value),
        case(best)
    ))
}

fn losses(record: &Record) -> Option<String> {
    let cases = cases(record);
    let worst = cases.first()?;
    let losses = cases.iter().filter(|(point, _)| point.value < 1.0 / 1.05).count();
    let little =
        cases.iter().filter(|(point, _)| (1.0 / 1.05..=1.1).contains(&point.value)).count();
    let strips = of(record, "blocked").filter(|point| point.value < 1.0 / 1.05).count();
    Some(format!(
        "It gains less than 10 % in {little} cases and loses more than 5 % in {losses}; the worst is {} as fast \
         as passes ({}). Strips in the first-level cache beat it in {strips} of {} cases of sending. The papers saw \
         it where ciphers dominate and where state or tables outgrow what is near.",
        times(worst.0.value),
        case(worst),
        of(record, "blocked").count()
    ))
}

fn memory(record: &Record) -> Option<String> {
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
    Some(format!(
        "With messages of {} a plain copy moves {copy:.1} GB/s; one loop of {near} of {} pipelines reaches four \
         fifths of that and so is bound by memory. Nearest is {} ({:.0} %), farthest {} ({:.0} %).",
        bytes(size),
        parts.len(),
        best.1,
        best.0 * 100.0,
        worst.1,
        worst.0 * 100.0
    ))
}

fn packets(record: &Record) -> Option<String> {
    let size = last(record, "gain-send")?;
    let gain = |chart: &str| at(record, chart, "this machine", size);
    let change = gain("gain-throughput")?;
    Some(format!(
        "In a whole transfer on loopback, packets of {}, one loop takes {} off the user-level time of sending and {} \
         off that of receiving; throughput is {} as high. Braun and Diot: 21 and 22 % on a SPARCstation 20-60, \
         throughput 1.21 times.",
        bytes(size),
        percent_less(gain("gain-send")?),
        percent_less(gain("gain-receive")?),
        times(change)
    ))
}

fn accesses(record: &Record) -> Option<String> {
    let saved = |way: &str| named(record, "saved", "this machine, portable", way);
    let misses = |series: &str, way: &str| {
        let end = format!(": portable, {way}");
        let is = |p: &&Point| {
            let name = matches!(&p.place.at, At::Name(name) if name.starts_with("SuperSPARC") && name.ends_with(&end));
            p.place.series == series && name
        };
        of(record, "misses").find(is).map(|point| point.value)
    };
    Some(format!(
        "Integration saves memory traffic worth {:.1} copies of a message sent and {:.1} of one received; the papers' 4 and \
         3. With the paper's SuperSPARC cache the part of accesses that misses is {:.1} % in one loop and {:.1} % in passes when \
         receiving (18.7 and 4.7 in the paper).",
        saved("send")?,
        saved("receive")?,
        misses("ILP", "receive")?,
        misses("non-ILP", "receive")?
    ))
}

fn knee(record: &Record) -> Option<String> {
    let mut ratios: Vec<(f64, f64)> =
        of(record, "ratio").filter_map(|point| Some((number(point)?, point.value))).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let little = ratios.first()?.1;
    let end = ratios.last()?;
    let loses = ratios.iter().find(|(_, ratio)| *ratio > 1.05);
    let from =
        loses.map_or("no state measured".to_owned(), |(state, _)| format!("{state:.0} words each"));
    Some(format!(
        "Three functions without state take {} the time of three loops in one loop; it loses by more than 5 % from {from}, and \
         with {:.0} words each takes {}. The paper's machine had its knee above 4 words each.",
        times(little),
        end.0,
        times(end.1)
    ))
}

fn codec(record: &Record) -> Option<String> {
    let ratio = |of: &str| named(record, "table-2", "this machine, LWS32", of);
    Some(format!(
        "A syntax of 32-bit words encodes integers {}, strings {} and message envelopes {} as fast as BER; Dabbous found 4.5, \
         1.4 and 1.6 times.",
        times(ratio("ints")?),
        times(ratio("strings")?),
        times(ratio("mpdus")?)
    ))
}

fn checksums(record: &Record) -> Option<String> {
    let gain = |form: &str| named(record, "table-6", "this machine", form);
    Some(format!(
        "Rewriting XTP's checksum with long words (op4) makes it {} as fast as the standard's loop, with vectors {}; Dabbous \
         found 21 times with long words on a SPARCstation 10.",
        times(gain("op4")?),
        times(gain("vectors")?)
    ))
}

fn processing(record: &Record) -> Option<String> {
    let gain =
        |protocol: &str, size| at(record, "gain", &format!("{protocol}, this machine"), size);
    Some(format!(
        "Processing a UDP packet of 200 bytes takes {} as long in passes as in one loop, one of 1000 bytes {}, a TCP segment \
         of 1000 bytes {}; INCA's 49 and 26 times are over a kernel of 1996, system call and interrupts with it.",
        times(gain("UDP", 200.0)?),
        times(gain("UDP", 1000.0)?),
        times(gain("TCP", 1000.0)?)
    ))
}

fn outboard(record: &Record) -> Option<String> {
    let rates = || of(record, "figure-5-packets").filter(|p| p.place.series == "120 ns a word");
    let most = rates().map(|point| point.value).max_by(f64::total_cmp)?;
    let flat =
        rates().filter(|p| p.value > most * 0.999).filter_map(number).max_by(f64::total_cmp)?;
    Some(format!(
        "An outboard transport with MacLean and Barvick's times would be bound by the protocol up to payloads of about {} \
         ({} packets a second; they measured more than 15,000): computed, for ours is not there yet.",
        bytes(flat),
        trimmed(most)
    ))
}
