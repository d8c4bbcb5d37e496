//! The report's text and the JSON of its charts.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Entry;
use crate::change::Change;
use crate::experiment::{Axis, Chart, Kind, Paper, PaperAxis, Scale};
use crate::record::{At, Point, Record};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("charts.js");

/// Text as HTML has it.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}

/// Text of ours as HTML has it: what stands between backticks is code.
fn with_code(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        let part = escaped(part);
        let _ = match i % 2 {
            0 => write!(out, "{part}"),
            _ => write!(out, "<code>{part}</code>"),
        };
    }
    out
}

/// JSON that no `<` ends early.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// The whole page.
pub(super) fn html(entries: &[Entry]) -> String {
    let mut out = String::new();
    out += "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n";
    out += "<meta name=\"viewport\" content=\"width=device-width\">\n";
    out += "<title>Fusewire lab: does one pass pay here?</title>\n<style>\n";
    out += STYLE;
    out += "</style>\n";
    navigation(&mut out, entries);
    out += "<main>\n<p class=\"menu\"><a href=\"#experiments\">All experiments</a></p>\n";
    super::answer::page(&mut out, entries);
    for entry in entries {
        experiment(&mut out, entry);
    }
    out += "</main>\n<script>\n";
    out += SCRIPT;
    out += "</script>\n</html>\n";
    out
}

fn navigation(out: &mut String, entries: &[Entry]) {
    *out += "<nav id=\"experiments\">\n<div class=\"title\">Fusewire lab</div>\n";
    *out += "<button id=\"light\" type=\"button\">light or dark</button>\n";
    *out += "<b>Question</b>\n<a href=\"#answer\">Does one pass pay here?</a>\n";
    for paper in Paper::ALL {
        let _ = writeln!(out, "<b>{}</b>", escaped(paper.authors()));
        for entry in entries.iter().filter(|entry| entry.experiment.paper == paper) {
            let (name, title) = (entry.experiment.name, escaped(entry.experiment.title));
            let class = if entry.record.is_some() { "" } else { " class=\"none\"" };
            let _ = writeln!(out, "<a href=\"#{name}\"{class}>{title}</a>");
        }
    }
    *out += "</nav>\n";
}

fn experiment(out: &mut String, entry: &Entry) {
    let Entry { experiment, record, change } = entry;
    let _ = writeln!(
        out,
        "<section class=\"page\" id=\"{}\">\n<h1>{}</h1>\n<p class=\"source\">{}, {}: {}</p>",
        experiment.name,
        escaped(experiment.title),
        escaped(experiment.paper.authors()),
        escaped(experiment.paper.title()),
        escaped(experiment.shows)
    );
    if let Some(record) = record {
        warnings(out, record);
    } else {
        let name = experiment.name;
        let why = match experiment.obstacle() {
            Some(why) => format!("This experiment has not run: {why}."),
            None => format!("This experiment has not run yet: fusewire lab run {name}"),
        };
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(&why));
    }
    for (heading, text) in [
        ("Question", experiment.question),
        ("Method", experiment.method),
        ("What differs, and why", experiment.differs),
    ] {
        let _ = writeln!(out, "<h2>{heading}</h2>\n<p>{}</p>", with_code(text));
    }
    layers(out, entry);
    *out += "<div class=\"charts\">\n";
    for chart in &experiment.charts {
        let of = |points: &[Point]| -> Vec<Point> {
            points.iter().filter(|p| p.place.chart == chart.id && fits(chart, p)).cloned().collect()
        };
        let ours = record.as_ref().map_or_else(Vec::new, |record| of(&record.points));
        let theirs = of(&experiment.published);
        if ours.is_empty() && theirs.is_empty() {
            continue;
        }
        figure(
            out,
            &format!("{}-{}", experiment.name, chart.id),
            chart,
            experiment.paper,
            &ours,
            &theirs,
        );
    }
    *out += "</div>\n";
    if let Some(record) = record {
        provenance(out, record, change.as_ref());
    }
    *out += "</section>\n";
}

/// Writes a chart: its data for the script, and a table of them.
pub(super) fn figure(
    out: &mut String,
    id: &str,
    chart: &Chart,
    paper: Paper,
    ours: &[Point],
    theirs: &[Point],
) {
    let both = chart.paper_axis == PaperAxis::Own && !ours.is_empty() && !theirs.is_empty();
    let class = if both { "chart apart" } else { "chart" };
    let title = escaped(chart.title);
    let _ =
        writeln!(out, "<figure class=\"{class}\" id=\"{id}\">\n<figcaption>{title}</figcaption>");
    let data = embedded(&picture(chart, paper, ours, theirs));
    let _ = writeln!(out, "<script type=\"application/json\">{data}</script>");
    table(out, chart, ours, theirs);
    *out += "</figure>\n";
}

/// Whether a point can be drawn there: a record may have anything.
pub(super) fn fits(chart: &Chart, point: &Point) -> bool {
    match (chart.kind, &point.place.at) {
        (Kind::Bars, At::Name(_)) => true,
        (Kind::Lines { x }, At::Number(at)) => x.scale == Scale::Linear || *at > 0.0,
        (Kind::Surface { .. }, At::Number(_)) => point.place.second.is_some(),
        _ => false,
    }
}

fn warnings(out: &mut String, record: &Record) {
    let measured = record.is_measured();
    if measured && record.noise.noisy {
        let _ = writeln!(
            out,
            "<p class=\"warn\">The machine was noisy: the control loop was disturbed in {:.0} % of {} looks. \
             Small differences mean nothing.</p>",
            record.noise.disturbed * 100.0,
            record.noise.looks
        );
    }
    if measured && record.quick {
        *out += "<p class=\"warn\">A quick run: the figures are rough.</p>\n";
    }
    for remark in &record.remarks {
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(remark));
    }
}

fn provenance(out: &mut String, record: &Record, change: Option<&Change>) {
    let caches: Vec<String> = record
        .machine
        .caches
        .iter()
        .map(|(name, bytes)| format!("{name} {} KiB", bytes >> 10))
        .collect();
    let noise = &record.noise;
    *out += "<h2>Record</h2>\n<dl>\n";
    for (term, text) in [
        ("taken", format!("{}, in {:.1} s", record.taken, record.seconds)),
        (
            "beside the one before",
            change.map_or("there is none of this kind".into(), Change::words),
        ),
        ("command", record.command.clone()),
        ("program", format!("fusewire {}", record.program)),
        ("processor", format!("{}, {} of them", record.machine.processor, record.machine.cpus)),
        ("caches", caches.join(", ")),
        ("level", record.machine.level.clone()),
        ("system", record.machine.system.clone()),
        (
            "control loop",
            format!(
                "{:.1} µs at best, {:.1} µs in the middle, disturbed in {:.0} % of {} looks",
                noise.best_ns / 1e3,
                noise.median_ns / 1e3,
                noise.disturbed * 100.0,
                noise.looks
            ),
        ),
    ] {
        let _ = writeln!(out, "<dt>{term}</dt><dd>{}</dd>", escaped(&text));
    }
    *out += "</dl>\n";
}

fn axis(axis: Axis) -> Value {
    json!({
        "label": axis.label,
        "unit": axis.unit,
        "logarithmic": axis.scale == Scale::Logarithmic,
    })
}

/// What `charts.js` draws: panels of series of points. A series has one colour wherever it is.
fn picture(chart: &Chart, paper: Paper, ours: &[Point], theirs: &[Point]) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for point in ours.iter().chain(theirs) {
        if !names.contains(&point.place.series.as_str()) {
            names.push(&point.place.series);
        }
    }
    let colours = colours(&names);
    let series = |points: &[Point], is_paper: bool| -> Vec<Value> {
        let of = |(name, colour): (&&str, &usize)| {
            let points: Vec<Value> =
                points.iter().filter(|p| p.place.series == **name).map(point).collect();
            (!points.is_empty()).then(
                || json!({ "name": name, "paper": is_paper, "colour": colour, "points": points }),
            )
        };
        names.iter().zip(&colours).filter_map(of).collect()
    };
    let panel = |title: &str, series: Vec<Value>| json!({ "title": title, "series": series });
    let panels: Vec<Value> = match chart.paper_axis {
        PaperAxis::Shared => {
            vec![panel("", [series(ours, false), series(theirs, true)].concat())]
        }
        PaperAxis::Own => [
            // Whose they are stands above the panel.
            panel(paper.authors(), series(theirs, false)),
            panel("this machine", series(ours, false)),
        ]
        .into_iter()
        .filter(|panel| panel["series"].as_array().is_some_and(|series| !series.is_empty()))
        .collect(),
    };
    let (kind, x, y) = match chart.kind {
        Kind::Lines { x } => ("lines", Some(x), None),
        Kind::Bars => ("bars", None, None),
        Kind::Surface { x, y } => ("surface", Some(x), Some(y)),
    };
    json!({
        "kind": kind,
        "x": x.map(axis),
        "y": y.map(axis),
        "value": axis(chart.value),
        "panels": panels,
    })
}

/// Colours of the style sheet (`--c0` to `--c7`).
const COLOURS: usize = 8;

/// The colour of each series. One loop, passes, user level and the kernel have the same colour in every chart; the other
/// series of a chart share the colours that are left.
fn colours(names: &[&str]) -> Vec<usize> {
    let mut taken = [false; COLOURS];
    // If several series have one meaning, the first gets its colour.
    let meant: Vec<Option<usize>> = names
        .iter()
        .map(|name| meaning(name).filter(|colour| !std::mem::replace(&mut taken[*colour], true)))
        .collect();
    let mut free = (0..COLOURS).rev().filter(|colour| !taken[*colour]).collect::<Vec<_>>();
    let mut rest = 0..;
    let next = |colour: Option<usize>| {
        colour.or_else(|| free.pop()).unwrap_or_else(|| rest.next().map_or(0, |i| i % COLOURS))
    };
    meant.into_iter().map(next).collect()
}

/// The colour of a series whose meaning recurs in many charts.
fn meaning(series: &str) -> Option<usize> {
    let is = |names: &[&str]| {
        names.iter().any(|name| {
            series == *name
                || series.ends_with(&format!(", {name}"))
                || series.starts_with(&format!("{name}, "))
        })
    };
    if is(&["integrated", "ILP", "BER", "one loop"]) || series.ends_with("one loop") {
        Some(0)
    } else if is(&["sequential", "non-ILP", "LWS", "LWS32", "passes"]) || series.ends_with("passes")
    {
        Some(1)
    } else if is(&["user level", "INCA", "XTP"]) {
        Some(2)
    } else if is(&["kernel", "kernel sockets", "kernel TCP", "Linux 2.0"]) {
        Some(3)
    } else {
        None
    }
}

fn point(point: &Point) -> Value {
    let mut value = json!({ "x": point.place.at, "v": point.value });
    for (key, number) in [("y", point.place.second), ("low", point.low), ("high", point.high)] {
        if let Some(number) = number {
            value[key] = number.into();
        }
    }
    value
}

fn at(place: &At, second: Option<f64>) -> String {
    let first = match place {
        At::Number(number) => trimmed(*number),
        At::Name(name) => name.clone(),
    };
    match second {
        Some(second) => format!("{first}, {}", trimmed(second)),
        None => first,
    }
}

/// A number with about four digits that mean something.
pub(super) fn trimmed(number: f64) -> String {
    match number.abs() {
        n if n >= 1000.0 || n == 0.0 => format!("{number:.0}"),
        n if n >= 100.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        n if n >= 0.01 => format!("{number:.4}"),
        _ => format!("{number:.2e}"),
    }
}

/// The architecture, theirs beside ours, with what the record says that each layer costs.
fn layers(out: &mut String, entry: &Entry) {
    let Entry { experiment, record, .. } = entry;
    let Some(chart) = experiment.charts.first().filter(|_| !experiment.layers.is_empty()) else {
        return;
    };
    let _ = writeln!(
        out,
        "<h2>{}</h2>\n<div class=\"scroll\"><table class=\"layers\">\n<tr><th class=\"text\">{}</th>\
         <th class=\"text\">here</th><th class=\"text\">{} [{}]</th></tr>",
        escaped(chart.title),
        escaped(experiment.paper.authors()),
        escaped(chart.value.label),
        escaped(chart.value.unit)
    );
    for layer in &experiment.layers {
        let points = record.iter().flat_map(|record| &record.points);
        let is = |p: &&Point| {
            p.place.chart == chart.id && matches!(&p.place.at, At::Name(at) if at == layer.part)
        };
        let costs = points.filter(is).map(|p| format!("{} {}", p.place.series, trimmed(p.value)));
        let costs = costs.collect::<Vec<_>>().join("; ");
        let _ = writeln!(
            out,
            "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
            with_code(layer.theirs),
            with_code(layer.ours),
            escaped(&costs)
        );
    }
    *out += "</table></div>\n";
}

/// Most rows that a table shows.
const ROWS_MAX: usize = 400;

fn table(out: &mut String, chart: &Chart, ours: &[Point], theirs: &[Point]) {
    *out += "<details><summary>values</summary><div class=\"scroll\"><table>";
    let unit = if chart.value.unit.is_empty() { chart.value.label } else { chart.value.unit };
    let _ = writeln!(
        out,
        "<tr><th>series</th><th class=\"text\">at</th><th>{}</th><th>quartiles</th><th>times</th></tr>",
        escaped(unit)
    );
    let rows = ours.iter().map(|p| (p, "")).chain(theirs.iter().map(|p| (p, " (paper)")));
    for (point, whose) in rows.take(ROWS_MAX) {
        let quartiles = match (point.low, point.high) {
            (Some(low), Some(high)) => format!("{} – {}", trimmed(low), trimmed(high)),
            _ => String::new(),
        };
        let times = point.samples.map_or(String::new(), |n| n.to_string());
        let _ = writeln!(
            out,
            "<tr><td>{}{whose}</td><td class=\"text\">{}</td><td>{}</td><td>{quartiles}</td><td>{times}</td></tr>",
            escaped(&point.place.series),
            escaped(&at(&point.place.at, point.place.second)),
            trimmed(point.value)
        );
    }
    *out += "</table></div></details>\n";
}
