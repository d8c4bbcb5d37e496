//! What the experiments are, in words: who asked what, how it is answered here, what is other than in the paper, how the
//! answer is shown, and the paper's own points. A file for each paper, read once.
//!
//! ```text
//! # NAME: TITLE
//! shows: …    seconds: QUICK FULL    needs: root | valgrind
//! question: …    method: …    differs: …                       "= NAME" is what that experiment says
//! layer: THEIRS | OURS | BARS                                  a layer of both, and which bars of the first chart are its cost
//! chart: ID | bars | VALUE | TITLE                             "lines | X | VALUE", "surface | X | Y | VALUE";
//!                                                              "bars apart": the paper's points in a picture of their own
//! paper: CHART | SERIES | AT = NUMBER; AT = NUMBER/NUMBER; …   the paper's points
//! -- a remark
//! ```
//! An axis is `LABEL [UNIT] log`, of which unit and log may be missing. A line that begins with a space goes on with the
//! one before.

use crate::experiment::{
    Axis, Chart, Experiment, Kind, Layer, Needs, Paper, PaperAxis, Run, Scale,
};
use crate::record::{At, Place};

const PAPERS: [(Paper, &str); 5] = [
    (Paper::BraunDiot, include_str!("papers/braun.txt")),
    (Paper::Ahlgren, include_str!("papers/ahlgren.txt")),
    (Paper::Dabbous, include_str!("papers/dabbous.txt")),
    (Paper::MacLeanBarvick, include_str!("papers/maclean.txt")),
    (Paper::Inca, include_str!("papers/inca.txt")),
];

/// All of them, in the order of the papers; `run` knows by name what runs each.
///
/// # Panics
/// When a file is wrong.
pub(super) fn all(run: impl Fn(&str) -> Run) -> Vec<Experiment> {
    let mut all: Vec<Experiment> = Vec::new();
    for (paper, text) in PAPERS {
        for line in lines(text) {
            if let Some((name, title)) = line.strip_prefix("# ").and_then(|l| l.split_once(": ")) {
                all.push(Experiment {
                    name,
                    paper,
                    shows: "",
                    title,
                    question: "",
                    method: "",
                    differs: "",
                    layers: Vec::new(),
                    charts: Vec::new(),
                    published: Vec::new(),
                    needs: Needs::Nothing,
                    seconds: [0.0; 2],
                    run: run(name),
                });
                continue;
            }
            let known = line.split_once(": ").and_then(|(key, value)| add(&mut all, key, value));
            assert!(known.is_some(), "what an experiment is: {line}");
        }
    }
    all
}

/// Lines without remarks, each with what goes on behind it.
fn lines(text: &str) -> Vec<&'static str> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
        match (line.strip_prefix(' '), lines.last_mut()) {
            (Some(more), Some(last)) => *last += &format!(" {}", more.trim_start()),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.into_iter().map(|line| &*line.leak()).collect()
}

/// Adds what a line says of the last experiment; nothing if it says nothing.
fn add(all: &mut [Experiment], key: &str, value: &'static str) -> Option<()> {
    let (last, before) = all.split_last_mut()?;
    let same = |of: fn(&Experiment) -> &'static str| match value.strip_prefix("= ") {
        Some(name) => before.iter().find(|other| other.name == name).map(of),
        None => Some(value),
    };
    match key {
        "shows" => last.shows = value,
        "question" => last.question = value,
        "method" => last.method = same(|other| other.method)?,
        "differs" => last.differs = same(|other| other.differs)?,
        "needs" => {
            last.needs = match value {
                "root" => Needs::Root,
                "valgrind" => Needs::Valgrind,
                _ => return None,
            };
        }
        "seconds" => {
            let (quick, full) = value.split_once(' ')?;
            last.seconds = [quick.parse().ok()?, full.parse().ok()?];
        }
        "layer" => {
            let mut parts = value.splitn(3, " | ");
            let (theirs, ours) = (parts.next()?, parts.next()?);
            last.layers.push(Layer { theirs, ours, part: parts.next().unwrap_or("") });
        }
        "chart" => last.charts.push(chart(value)?),
        "paper" => {
            let mut parts = value.splitn(3, " | ");
            let (chart, series, points) = (parts.next()?, parts.next()?, parts.next()?);
            let is_bars = last.chart(chart)?.kind == Kind::Bars;
            for point in points.split("; ") {
                let (at, value) = point.rsplit_once(" = ")?;
                let at = if is_bars { At::from(at) } else { At::from(at.parse::<f64>().ok()?) };
                let (over, under) = value.split_once('/').unwrap_or((value, "1"));
                let value = over.parse::<f64>().ok()? / under.parse::<f64>().ok()?;
                last.published.push(Place::new(chart, series, at).is(value));
            }
        }
        _ => return None,
    }
    Some(())
}

fn chart(text: &'static str) -> Option<Chart> {
    let parts: Vec<&'static str> = text.split(" | ").collect();
    let [id, kind, axes @ .., title] = &parts[..] else { return None };
    let (kind, paper_axis) = match kind.strip_suffix(" apart") {
        Some(kind) => (kind, PaperAxis::Own),
        None => (*kind, PaperAxis::Shared),
    };
    let axes: Vec<Axis> = axes.iter().map(|text| axis(text)).collect();
    let (kind, value) = match (kind, &axes[..]) {
        ("bars", [value]) => (Kind::Bars, *value),
        ("lines", [x, value]) => (Kind::Lines { x: *x }, *value),
        ("surface", [x, y, value]) => (Kind::Surface { x: *x, y: *y }, *value),
        _ => return None,
    };
    Some(Chart { id, title, kind, value, paper_axis })
}

fn axis(text: &'static str) -> Axis {
    let (text, scale) = match text.strip_suffix(" log") {
        Some(text) => (text, Scale::Logarithmic),
        None => (text, Scale::Linear),
    };
    let unit = text.strip_suffix(']').and_then(|text| text.split_once(" ["));
    let (label, unit) = unit.unwrap_or((text, ""));
    Axis { label, unit, scale }
}
