//! The experiments of the five papers, a file each, or each kind.

mod absent;
mod ahlgren_figures;
mod ahlgren_table_2;
mod braun_loops;
mod braun_memory;
mod braun_parts;
mod braun_transfer;
mod braun_units;
mod dabbous_checksums;
mod dabbous_codec;
mod inca_messages;
mod maclean_throughput;
mod synthetic;

use crate::experiment::Experiment;

/// What the name of a series ends with whose point a paper gives without a size, so that where it is drawn is our choice.
const PLACED: &str = ", size placed by us";

/// All of them, in the order of the papers.
pub const ALL: &[Experiment] = &[
    braun_transfer::PACKETS,
    braun_transfer::CIPHERS,
    braun_memory::EXPERIMENT,
    braun_loops::LOOPS,
    braun_loops::POINTERS,
    braun_parts::EXPERIMENT,
    braun_units::EXPERIMENT,
    braun_transfer::WHEN,
    ahlgren_table_2::EXPERIMENT,
    ahlgren_figures::FIGURE_3,
    ahlgren_figures::FIGURE_5,
    ahlgren_figures::FIGURE_6,
    ahlgren_figures::FIGURE_7,
    ahlgren_figures::WORD_FILTERS,
    dabbous_codec::EXPERIMENT,
    dabbous_checksums::EXPERIMENT,
    inca_messages::DABBOUS_UDP,
    inca_messages::DABBOUS_TCP,
    absent::XTP,
    maclean_throughput::EXPERIMENT,
    absent::OUTBOARD,
    inca_messages::OVERHEAD,
    inca_messages::MESSAGES,
    inca_messages::PROCESSING,
];

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
        for (i, experiment) in ALL.iter().enumerate() {
            assert!(experiment.name.starts_with(experiment.paper.name()), "{}", experiment.name);
            assert!(ALL[..i].iter().all(|other| other.name != experiment.name));
            assert!(!experiment.question.is_empty() && !experiment.differs.is_empty());
        }
    }

    #[test]
    fn the_papers_points_fit_their_charts() {
        for experiment in ALL {
            for point in (experiment.published)() {
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
