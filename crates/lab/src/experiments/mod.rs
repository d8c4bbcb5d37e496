//! The experiments of the five papers, a file each, or each kind.

mod ahlgren_figure_4;
mod ahlgren_figures;
mod ahlgren_future;
mod ahlgren_table_2;
mod braun_loops;
mod braun_memory;
mod braun_parts;
mod braun_sum;
mod braun_transfer;
mod braun_units;
mod dabbous_checksums;
mod dabbous_codec;
mod dabbous_subsystem;
mod dabbous_xtp;
mod inca_messages;
mod maclean_outboard;
mod maclean_throughput;
mod papers;
mod synthetic;

use std::sync::LazyLock;

use fusewire_model::paper::Figure;

use crate::experiment::{Experiment, Run};
use crate::inca::Protocol;

/// What runs each of them.
const RUNS: &[(&str, Run)] = &[
    ("braun-packets", braun_transfer::packets),
    ("braun-file", braun_transfer::file),
    ("braun-ciphers", braun_transfer::ciphers),
    ("braun-memory", braun_memory::run),
    ("braun-memory-time", braun_memory::time),
    ("braun-loops", |bench| braun_loops::run(bench, false)),
    ("braun-sum", braun_sum::run),
    ("braun-pointers", |bench| braun_loops::run(bench, true)),
    ("braun-parts", braun_parts::run),
    ("braun-protected", braun_transfer::protected),
    ("braun-units", braun_units::run),
    ("braun-when", braun_transfer::when),
    ("ahlgren-table-2", ahlgren_table_2::run),
    ("ahlgren-figure-3", |bench| ahlgren_figures::run(bench, Figure::Three)),
    ("ahlgren-figure-4", ahlgren_figure_4::run),
    ("ahlgren-figure-5", |bench| ahlgren_figures::run(bench, Figure::Five)),
    ("ahlgren-figure-6", |bench| ahlgren_figures::run(bench, Figure::Six)),
    ("ahlgren-figure-7", |bench| ahlgren_figures::run(bench, Figure::Seven)),
    ("ahlgren-future", ahlgren_future::run),
    ("ahlgren-word-filters", ahlgren_figures::word_filters),
    ("dabbous-codec", dabbous_codec::run),
    ("dabbous-checksums", dabbous_checksums::run),
    ("dabbous-udp", |bench| inca_messages::dabbous(bench, Protocol::Udp)),
    ("dabbous-tcp", |bench| inca_messages::dabbous(bench, Protocol::Tcp)),
    ("dabbous-xtp", dabbous_xtp::run),
    ("dabbous-subsystem", dabbous_subsystem::run),
    ("maclean-throughput", maclean_throughput::run),
    ("maclean-outboard", maclean_outboard::run),
    ("inca-overhead", inca_messages::overhead),
    ("inca-messages", inca_messages::messages),
    ("inca-processing", inca_messages::processing),
    ("inca-cold", inca_messages::cold),
];

/// All of them, in the order of the papers.
pub static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
    let run = |name: &str| RUNS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run);
    let mut all = papers::all(|name| run(name).expect("each is run by something"));
    // What the model has already.
    for (name, points) in [
        ("ahlgren-table-2", ahlgren_table_2::published()),
        ("ahlgren-figure-4", ahlgren_figure_4::published()),
    ] {
        let known = all.iter_mut().find(|experiment| experiment.name == name);
        known.into_iter().for_each(|experiment| experiment.published.extend(points.clone()));
    }
    all
});

/// The experiment of that name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// Why valgrind cannot be used; nothing if it can.
pub(crate) fn valgrind_missing() -> Option<String> {
    let found = std::process::Command::new("valgrind").arg("--version").output();
    let missing = "needs valgrind, which is not here: install the package valgrind";
    (!found.is_ok_and(|output| output.status.success())).then(|| missing.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Kind;
    use crate::record::At;

    #[test]
    fn names_are_the_papers_and_one_each() {
        assert_eq!(ALL.len(), RUNS.len());
        for (i, experiment) in ALL.iter().enumerate() {
            assert!(experiment.name.starts_with(experiment.paper.name()), "{}", experiment.name);
            assert!(ALL[..i].iter().all(|other| other.name != experiment.name));
            assert!(!experiment.question.is_empty() && !experiment.differs.is_empty());
        }
    }

    #[test]
    fn the_papers_points_fit_their_charts() {
        for experiment in ALL.iter() {
            for point in &experiment.published {
                let place = &point.place;
                let chart = experiment.chart(&place.chart);
                let chart = chart.unwrap_or_else(|| panic!("{}: {place:?}", experiment.name));
                let fits = match chart.kind {
                    Kind::Bars => matches!(place.at, At::Name(_)),
                    Kind::Lines { .. } => matches!(place.at, At::Number(_)),
                    Kind::Surface { .. } => place.second.is_some(),
                };
                assert!(fits && point.value.is_finite(), "{}: {place:?}", experiment.name);
            }
        }
    }
}
