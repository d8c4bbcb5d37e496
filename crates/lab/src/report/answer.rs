//! The first page: does one pass pay here? The answer, case by case, the findings, and the records that they are from.

use std::fmt::Write;

use super::finding::Finding;
use super::page::{escaped, figure, fits};
use super::{Entry, findings};
use crate::experiment::Experiment;
use crate::record::{At, Point, Record};

/// Writes it.
pub(super) fn page(out: &mut String, entries: &[Entry]) {
    *out += "<section class=\"page\" id=\"answer\">\n<h1>Does one pass pay here?</h1>\n";
    let machine = entries.iter().find_map(|entry| Some(&entry.record.as_ref()?.machine));
    if let Some(machine) = machine {
        let (processor, level) = (escaped(&machine.processor), escaped(&machine.level));
        let _ = writeln!(
            out,
            "<p class=\"source\">{processor}, {} processors, loops at level {level}</p>",
            machine.cpus
        );
    }
    let loops = entries.iter().find(|entry| entry.experiment.name == LOOPS);
    if let Some(Entry { experiment, record: Some(record), .. }) = loops {
        verdict(out, record);
        chart(out, experiment, record);
    }
    let findings = findings(entries);
    *out += "<h2>Findings</h2>\n";
    cautions(out, &findings);
    *out += "<ol class=\"findings\">\n";
    for finding in findings {
        let class = if finding.known { "" } else { " class=\"none\"" };
        let (head, text, name) = (escaped(&finding.head), escaped(&finding.text), finding.from);
        let _ =
            writeln!(out, "<li{class}><b>{head}</b> {text} <a href=\"#{name}\">{name}</a></li>");
    }
    *out += "</ol>\n";
    records(out, entries);
    *out += "</section>\n";
}

/// The experiment that the answer is from.
const LOOPS: &str = "braun-loops";

/// Writes each reason to distrust figures once, with the experiments that it is true of.
fn cautions(out: &mut String, findings: &[Finding]) {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for finding in findings {
        let Some(why) = &finding.caution else { continue };
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, names)) if names.contains(&finding.from) => {}
            Some((_, names)) => names.push(finding.from),
            None => reasons.push((why, vec![finding.from])),
        }
    }
    let known = findings.iter().filter(|finding| finding.caution.is_some() || finding.known);
    let mut all: Vec<&str> = known.map(|finding| finding.from).collect();
    all.dedup();
    for (why, names) in reasons {
        let whose = match names.len() == all.len() {
            true => "all experiments".to_owned(),
            false => names.join(", "),
        };
        let _ = writeln!(
            out,
            "<p class=\"caution\">{} ({}): small differences mean nothing.</p>",
            escaped(why),
            escaped(&whose)
        );
    }
}

/// Draws the gains of sending that the verdict counts.
fn chart(out: &mut String, experiment: &Experiment, record: &Record) {
    let Some(chart) = experiment.chart("gain-send") else { return };
    let of = |points: &[Point]| -> Vec<Point> {
        let is = |point: &&Point| point.place.chart == chart.id && fits(chart, point);
        points.iter().filter(is).cloned().collect()
    };
    let (ours, theirs) = (of(&record.points), of(&experiment.published));
    if ours.is_empty() {
        return;
    }
    *out += "<div class=\"charts\">\n";
    figure(out, "answer-gain", chart, experiment.paper, &ours, &theirs);
    *out += "</div>\n";
}

/// Where one loop gains, pipeline by pipeline.
fn verdict(out: &mut String, record: &Record) {
    let ratios = |chart: &str| -> Vec<&Point> {
        record.points.iter().filter(|point| point.place.chart == chart).collect()
    };
    let ways = [("Sending", ratios("gain-send")), ("Receiving", ratios("gain-receive"))];
    let all: Vec<f64> = ways.iter().flat_map(|(_, points)| points).map(|p| p.value).collect();
    if all.is_empty() {
        return;
    }
    let part = |is: fn(f64) -> bool| all.iter().filter(|ratio| is(**ratio)).count();
    let (gains, losses) = (part(gains), part(loses));
    let answer = match gains * 4 / all.len() {
        3.. => "Mostly yes.",
        2 => "More often than not.",
        1 => "Sometimes.",
        _ => "Seldom.",
    };
    let _ = writeln!(
        out,
        "<p class=\"verdict\"><b>{answer}</b> One loop over the bytes is more than 10 % faster than a pass for each \
         stage in {gains} of {} cases, slower by more than 5 % in {losses}. Which they are:</p>\n<div class=\"ways\">",
        all.len()
    );
    for (way, points) in &ways {
        matrix(out, way, points, &ratios("blocked"));
    }
    *out += "</div>\n<p class=\"dim\">Time of a pass for each stage by that of one loop, by message in bytes: above 1 one loop \
             is faster. \u{2020} strips in the first-level cache are faster than one loop, by more than 5 % (measured when \
             sending). For a pipeline of your own: <code>fusewire model predict</code> and <code>fusewire \
             advise</code>.</p>\n";
}

fn gains(ratio: f64) -> bool {
    ratio > 1.1
}

fn loses(ratio: f64) -> bool {
    ratio < 1.0 / 1.05
}

fn size(point: &Point) -> Option<f64> {
    match point.place.at {
        At::Number(size) => Some(size),
        At::Name(_) => None,
    }
}

fn matrix(out: &mut String, way: &str, points: &[&Point], blocked: &[&Point]) {
    let mut sizes: Vec<f64> = points.iter().filter_map(|point| size(point)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut names: Vec<&str> = Vec::new();
    for point in points {
        if !names.contains(&point.place.series.as_str()) {
            names.push(&point.place.series);
        }
    }
    let find = |points: &[&Point], name: &str, at: f64| {
        let is = |p: &&&Point| p.place.series == name && size(p) == Some(at);
        points.iter().find(is).map(|point| point.value)
    };
    let _ = write!(out, "<div class=\"scroll\"><table class=\"matrix\"><tr><th>{way}</th>");
    for at in &sizes {
        let _ = write!(out, "<th>{}</th>", short(*at));
    }
    *out += "</tr>\n";
    for name in names {
        let _ = write!(out, "<tr><td>{}</td>", escaped(name));
        for at in &sizes {
            let Some(ratio) = find(points, name, *at) else {
                *out += "<td></td>";
                continue;
            };
            let class = match ratio {
                r if gains(r) => "gain",
                r if loses(r) => "loss",
                _ => "even",
            };
            let strips = way == "Sending" && find(blocked, name, *at).is_some_and(loses);
            let dagger = if strips { "\u{2020}" } else { "" };
            let _ = write!(out, "<td class=\"{class}\">{ratio:.2}{dagger}</td>");
        }
        *out += "</tr>\n";
    }
    *out += "</table></div>\n";
}

/// Bytes as a heading has room for.
fn short(bytes: f64) -> String {
    match bytes {
        b if b >= 1_048_576.0 && (b / 1_048_576.0).fract() == 0.0 => {
            format!("{} Mi", b / 1_048_576.0)
        }
        b if b >= 4096.0 && (b / 1024.0).fract() == 0.0 => format!("{} Ki", b / 1024.0),
        b => format!("{b}"),
    }
}

fn records(out: &mut String, entries: &[Entry]) {
    *out += "<h2>Records</h2>\n<div class=\"scroll\"><table class=\"records\"><tr><th>experiment</th><th class=\"text\">shows</th>\
             <th class=\"text\">taken</th><th class=\"text\">run</th><th>points</th><th>disturbed</th>\
             <th>since the one before</th></tr>\n";
    for Entry { experiment, record, change } in entries {
        let (name, shows) = (experiment.name, escaped(experiment.shows));
        let _ = write!(
            out,
            "<tr><td><a href=\"#{name}\">{name}</a></td><td class=\"text\">{shows}</td>"
        );
        let _ = match record {
            Some(r) => {
                let noise = match r.is_measured() {
                    true => format!("{:.0}\u{a0}%", r.noise.disturbed * 100.0),
                    false => "computed".to_owned(),
                };
                let change = change.as_ref().map_or(String::new(), |change| {
                    format!("{:+.1}\u{a0}%", (change.median - 1.0) * 100.0)
                });
                writeln!(
                    out,
                    "<td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{noise}</td><td>{change}</td></tr>",
                    escaped(&r.taken),
                    if r.quick { "quick" } else { "full" },
                    r.points.len(),
                )
            }
            None => {
                let why = experiment.obstacle().unwrap_or_else(|| "not run yet".to_owned());
                writeln!(out, "<td class=\"text dim\" colspan=\"5\">{}</td></tr>", escaped(&why))
            }
        };
    }
    *out += "</table></div>\n";
}
