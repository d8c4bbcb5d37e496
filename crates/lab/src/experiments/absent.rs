//! Experiments whose part of the system is not there yet. They say so, and never run.

use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};
use crate::{Error, Result};

const XTP_PART: &str = "XTP";
const OUTBOARD_PART: &str = "outboard processing (transmit and receive threads of their own)";

pub(super) const XTP: Experiment = Experiment {
    name: "dabbous-xtp",
    paper: Paper::Dabbous,
    shows: "Table 9",
    title: "XTP throughput by ADU size",
    question: "How much goes through a user-level XTP by size of the ADU?",
    method: "Not there yet: it will run as the throughput of UDP and TCP does.",
    differs: "Nothing was measured here; the points are the paper's.",
    charts: &[Chart::lines(
        "throughput",
        "Table 9",
        Axis::logarithmic("ADU", "bytes"),
        Axis::linear("throughput", "Mbit/s"),
    )
    .own_axis()],
    published: || {
        let rows = [
            (2000.0, 9.62, 18.01),
            (4000.0, 9.65, 19.72),
            (8192.0, 9.71, 20.38),
            (16_384.0, 9.77, 21.24),
        ];
        rows.into_iter()
            .flat_map(|(size, ethernet, fddi)| {
                [("Ethernet", ethernet), ("FDDI", fddi)]
                    .map(|(series, mbits)| Place::new("throughput", series, size).is(mbits))
            })
            .collect()
    },
    needs: Needs::Absent(XTP_PART),
    seconds: [0.0, 0.0],
    run: |_| absent(XTP_PART),
};

pub(super) const OUTBOARD: Experiment = Experiment {
    name: "maclean-outboard",
    paper: Paper::MacLeanBarvick,
    shows: "Figures 5 to 7, measured",
    title: "An outboard transport, measured",
    question: "What do transmit and receive processors of their own gain?",
    method: "Not there yet: it will measure packets a second by payload and by the application's message, inline and outboard.",
    differs: "Nothing was measured here. What the paper's timing model says is computed in the experiment before.",
    charts: &[],
    published: Vec::<Point>::new,
    needs: Needs::Absent(OUTBOARD_PART),
    seconds: [0.0, 0.0],
    run: |_| absent(OUTBOARD_PART),
};

fn absent(part: &str) -> Result<()> {
    Err(Error::Unsupported(format!("not there yet: {part}")))
}
