//! What an experiment is: a question, how it is answered, the charts that show it, and the paper's points
//! that are set beside ours.

use crate::Result;
use crate::bench::Bench;
use crate::record::Point;

/// Whose experiment it was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Protocol Implementation Using Integrated Layer Processing.
    BraunDiot,
    /// A Performance Model for Integrated Layer Processing.
    Ahlgren,
    /// High Performance Implementation of Communication Subsystems.
    Dabbous,
    /// An Outboard Processor for High Performance Implementation of Transport Layer Protocols.
    MacLeanBarvick,
    /// High Performance Integrated Network Communications Architecture.
    Inca,
}

impl Paper {
    /// All of them.
    pub const ALL: [Paper; 5] =
        [Paper::BraunDiot, Paper::Ahlgren, Paper::Dabbous, Paper::MacLeanBarvick, Paper::Inca];

    /// As names of experiments begin.
    pub const fn name(self) -> &'static str {
        match self {
            Paper::BraunDiot => "braun",
            Paper::Ahlgren => "ahlgren",
            Paper::Dabbous => "dabbous",
            Paper::MacLeanBarvick => "maclean",
            Paper::Inca => "inca",
        }
    }

    /// Authors and year.
    pub const fn authors(self) -> &'static str {
        match self {
            Paper::BraunDiot => "Braun, Diot 1995",
            Paper::Ahlgren => "Ahlgren 1997",
            Paper::Dabbous => "Dabbous 1993",
            Paper::MacLeanBarvick => "MacLean, Barvick 1991",
            Paper::Inca => "Schug, Jayasumana, Gopalakrishnan 1999",
        }
    }

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Paper::BraunDiot => "Protocol Implementation Using Integrated Layer Processing",
            Paper::Ahlgren => "A Performance Model for Integrated Layer Processing",
            Paper::Dabbous => "High Performance Implementation of Communication Subsystems",
            Paper::MacLeanBarvick => {
                "An Outboard Processor for High Performance Implementation of Transport Layer Protocols"
            }
            Paper::Inca => "High Performance Integrated Network Communications Architecture (INCA)",
        }
    }
}

/// What must be there for an experiment to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing besides this program.
    Nothing,
    /// Network namespaces, so root.
    Root,
    /// valgrind.
    Valgrind,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Even steps, from zero where values are.
    Linear,
    /// Even factors.
    Logarithmic,
}

/// An axis of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it shows.
    pub label: &'static str,
    /// In which unit; empty for a pure number.
    pub unit: &'static str,
    /// How it is divided.
    pub scale: Scale,
}

/// What a chart looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line for each series over numbers.
    Lines {
        /// Along the bottom.
        x: Axis,
    },
    /// Bars for each name.
    Bars,
    /// A surface for each series over two numbers.
    Surface {
        /// The first.
        x: Axis,
        /// The second.
        y: Axis,
    },
}

/// Whether the paper's points and ours share an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperAxis {
    /// One picture: ratios, and what was computed from the same parameters.
    Shared,
    /// Two, each with an axis of its own: thirty years lie between them.
    Own,
}

/// A chart of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Chart {
    /// Points name it.
    pub id: &'static str,
    /// Above it.
    pub title: &'static str,
    /// What it looks like.
    pub kind: Kind,
    /// What its values are.
    pub value: Axis,
    /// Where the paper's points go.
    pub paper_axis: PaperAxis,
}

/// A layer of an implementation, where a figure of the paper shows its architecture.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// What it is there.
    pub theirs: &'static str,
    /// What it is here.
    pub ours: &'static str,
    /// The bars of the first chart that say what it costs; empty if none does.
    pub part: &'static str,
}

/// What runs an experiment.
pub type Run = fn(&mut Bench<'_>) -> Result<()>;

/// An experiment of the papers.
pub struct Experiment {
    /// Its name: the paper's, and what it is about.
    pub name: &'static str,
    /// Whose it was.
    pub paper: Paper,
    /// Tables and figures of the paper.
    pub shows: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// How the answer is found here.
    pub method: &'static str,
    /// What is other than in the paper, and why.
    pub differs: &'static str,
    /// The architecture, from the application down.
    pub layers: Vec<Layer>,
    /// How the answer is shown.
    pub charts: Vec<Chart>,
    /// The paper's points, with the places that they come from in `series`.
    pub published: Vec<Point>,
    /// What must be there.
    pub needs: Needs,
    /// Seconds that it takes, quick and full: where the time left comes from until it is known better.
    pub seconds: [f64; 2],
    /// Runs it.
    pub run: Run,
}

impl Experiment {
    /// The chart of that name.
    pub fn chart(&self, id: &str) -> Option<&Chart> {
        self.charts.iter().find(|chart| chart.id == id)
    }

    /// Why it cannot run here; nothing if it can.
    pub fn obstacle(&self) -> Option<String> {
        match self.needs {
            Needs::Nothing => None,
            Needs::Root => (!rustix::process::geteuid().is_root())
                .then(|| "needs root, for network namespaces: run it with sudo".to_owned()),
            Needs::Valgrind => crate::experiments::valgrind_missing(),
        }
    }
}
