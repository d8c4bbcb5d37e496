//! Records: what an experiment found, when, where and how, as JSON that later runs are compared with.
//!
//! A record is read from a file that anybody may have written, so [`Record::parse`] refuses, by name, what
//! no run can have found.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::{Error, Result};

/// The version of the form; another is refused.
pub const SCHEMA: u32 = 1;

/// Charts of differences between one loop and passes. Their values are negative if one loop moves or needs more.
const DIFFERENCES: [&str; 3] = ["saved", "saved-bytes", "code-growth"];
/// Larger files are no record.
const FILE_MAX: u64 = 8 << 20;
/// More than any experiment finds.
const POINTS_MAX: usize = 100_000;
const TEXT_MAX: usize = 500;

/// Where a point lies along its chart's first axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum At {
    /// A number on an axis.
    Number(f64),
    /// A name beside bars.
    Name(String),
}

impl From<f64> for At {
    fn from(number: f64) -> At {
        At::Number(number)
    }
}

impl From<usize> for At {
    fn from(number: usize) -> At {
        At::Number(number as f64)
    }
}

impl From<u32> for At {
    fn from(number: u32) -> At {
        At::Number(number.into())
    }
}

impl From<&str> for At {
    fn from(name: &str) -> At {
        At::Name(name.to_owned())
    }
}

impl From<String> for At {
    fn from(name: String) -> At {
        At::Name(name)
    }
}

/// Where a value belongs: chart, series, place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The chart's name.
    pub chart: String,
    /// What is compared: a line, a group of bars, a surface.
    pub series: String,
    /// Along the first axis.
    pub at: At,
    /// Along the second, of surfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<f64>,
}

impl Place {
    /// On a chart of lines or bars.
    pub fn new(chart: &str, series: impl Into<String>, at: impl Into<At>) -> Place {
        Place { chart: chart.to_owned(), series: series.into(), at: at.into(), second: None }
    }

    /// On a surface.
    pub fn surface(chart: &str, series: impl Into<String>, x: f64, y: f64) -> Place {
        Place { second: Some(y), ..Place::new(chart, series, x) }
    }

    /// With a value.
    pub fn is(self, value: f64) -> Point {
        Point { place: self, value, low: None, high: None, samples: None }
    }
}

/// A value at its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The median of what was measured, or what was computed.
    pub value: f64,
    /// A quarter of the samples lies below; absent where nothing was measured twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// A quarter lies above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// How often it was measured; absent of what was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
}

/// The machine that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of them a program may use.
    pub cpus: u32,
    /// The CPU level of the loops.
    pub level: String,
    /// The operating system's release.
    pub system: String,
    /// Caches of one processor: name and bytes.
    pub caches: Vec<(String, u64)>,
}

/// How quiet the machine was: a loop whose time is known ran between all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// How often.
    pub looks: u32,
    /// The fastest, in ns.
    pub best_ns: f64,
    /// The median, in ns.
    pub median_ns: f64,
    /// Part of them that took more than an eighth longer than the fastest.
    pub disturbed: f64,
    /// Whether that is too much to trust small differences.
    pub noisy: bool,
}

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the form.
    pub schema: u32,
    /// Which experiment.
    pub experiment: String,
    /// When it began: seconds since 1970.
    pub taken_unix_s: u64,
    /// The same for people.
    pub taken: String,
    /// How long it took.
    pub seconds: f64,
    /// The command.
    pub command: String,
    /// The program's version.
    pub program: String,
    /// A short run: the figures are rough.
    pub quick: bool,
    /// Where.
    pub machine: Machine,
    /// How quiet it was.
    pub noise: Noise,
    /// What had to be left out, and why.
    pub remarks: Vec<String>,
    /// What was found.
    pub points: Vec<Point>,
}

impl Record {
    /// Whether it has more than what was computed, which is neither rough nor disturbed.
    pub fn is_measured(&self) -> bool {
        self.points.iter().any(|point| point.samples.is_some())
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Record`] says what no record can have.
    pub fn parse(text: &str) -> Result<Record> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let wrong = |error: serde_json::Error| Error::Record(format!("no record: {error}"));
        let Head { schema } = serde_json::from_str(text).map_err(wrong)?;
        if schema != SCHEMA {
            let why = format!("of version {schema}, this program reads {SCHEMA}: run it again");
            return Err(Error::Record(why));
        }
        let record: Record = serde_json::from_str(text).map_err(wrong)?;
        record.check()?;
        Ok(record)
    }

    /// Reads one from a file.
    ///
    /// # Errors
    /// As [`Record::parse`], with the file's name.
    pub fn read(path: &Path) -> Result<Record> {
        let named = |why: String| Error::Record(format!("{}: {why}", path.display()));
        let meta = std::fs::metadata(path).map_err(|error| named(error.to_string()))?;
        if !meta.is_file() || meta.len() > FILE_MAX {
            return Err(named(format!("{} bytes are no record", meta.len())));
        }
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        Record::parse(&text).map_err(|error| named(error.to_string()))
    }

    fn check(&self) -> Result<()> {
        let absurd = |what: &str, found: String| {
            Err(Error::Record(format!("{what} is {found}: no run can have found that")))
        };
        let noise = &self.noise;
        for (what, value, most) in [
            ("seconds", self.seconds, 1e7),
            ("noise.best_ns", noise.best_ns, 1e12),
            ("noise.median_ns", noise.median_ns, 1e12),
            ("noise.disturbed", noise.disturbed, 1.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return absurd(what, value.to_string());
            }
        }
        if self.machine.cpus == 0 {
            return absurd("machine.cpus", "0".into());
        }
        if let Some((name, bytes)) = self.machine.caches.iter().find(|(_, b)| *b == 0) {
            return absurd(&format!("machine.caches {name}"), bytes.to_string());
        }
        if self.points.len() > POINTS_MAX {
            return absurd("the number of points", self.points.len().to_string());
        }
        let texts = [
            &self.experiment,
            &self.taken,
            &self.command,
            &self.program,
            &self.machine.processor,
            &self.machine.level,
            &self.machine.system,
        ];
        let caches = self.machine.caches.iter().map(|(name, _)| name);
        for text in texts.into_iter().chain(&self.remarks).chain(caches) {
            check_text(text)?;
        }
        self.points.iter().try_for_each(check_point)
    }
}

fn check_text(text: &str) -> Result<()> {
    if text.chars().count() > TEXT_MAX || text.chars().any(char::is_control) {
        let start: String = text.chars().filter(|c| !c.is_control()).take(30).collect();
        let why = format!("the text {start:?}… is too long or has control characters");
        return Err(Error::Record(why));
    }
    Ok(())
}

fn check_point(point: &Point) -> Result<()> {
    check_text(&point.place.chart)?;
    check_text(&point.place.series)?;
    let bad = match &point.place.at {
        At::Name(name) => {
            check_text(name)?;
            false
        }
        At::Number(x) => !x.is_finite() || *x < 0.0,
    };
    let may_be_negative = DIFFERENCES.contains(&point.place.chart.as_str());
    let is_bad = |value: f64| !value.is_finite() || (value < 0.0 && !may_be_negative);
    let values = [Some(point.value), point.low, point.high].into_iter().flatten();
    let bad = bad || values.into_iter().any(is_bad);
    let bad = bad || point.place.second.is_some_and(|second| !second.is_finite() || second < 0.0);
    let spread = point.low.is_some_and(|low| low > point.value)
        || point.high.is_some_and(|high| high < point.value);
    if bad || spread || point.samples == Some(0) {
        let Point { place, value, .. } = point;
        let why = format!(
            "chart {}, series {}: the value {value} or where it lies is absurd: \
             no run can have found that",
            place.chart, place.series
        );
        return Err(Error::Record(why));
    }
    Ok(())
}

/// Where records are kept: a folder an experiment, a file a run.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// In that folder.
    pub fn at(folder: PathBuf) -> Records {
        Records { folder }
    }

    /// Where the XDG base directories say: `fusewire/lab` in the data folder.
    ///
    /// # Errors
    /// When neither `XDG_DATA_HOME` nor `HOME` says where.
    pub fn usual() -> Result<Records> {
        let from =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = from("XDG_DATA_HOME").or_else(|| Some(from("HOME")?.join(".local/share")));
        let why = "neither XDG_DATA_HOME nor HOME says where records are: use --records DIR";
        let data = data.ok_or_else(|| Error::Unsupported(why.to_owned()))?;
        Ok(Records::at(data.join("fusewire").join("lab")))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, and sees that a record can be written there: before hours of work, not after them.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn open(&self) -> Result<()> {
        let trial = self.folder.join(format!(".trial-{}", std::process::id()));
        let written =
            std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&trial, ""));
        let removed = written.and_then(|()| std::fs::remove_file(&trial));
        removed.map_err(Error::os("opening the folder of records"))
    }

    /// Keeps a record, whole or not at all; gives its file.
    ///
    /// # Errors
    /// When it is absurd; when the operating system refuses.
    pub fn keep(&self, record: &Record) -> Result<PathBuf> {
        // What could not be read again is not written.
        record.check()?;
        let folder = self.folder.join(&record.experiment);
        std::fs::create_dir_all(&folder).map_err(Error::os("making the folder of records"))?;
        let mut at = record.taken_unix_s;
        let path = loop {
            let path = folder.join(format!("{at}.json"));
            if !path.exists() {
                break path;
            }
            at += 1;
        };
        let part = path.with_extension("part");
        let text = serde_json::to_string(record).map_err(|e| Error::Record(e.to_string()))?;
        std::fs::write(&part, text + "\n").map_err(Error::os("writing a record"))?;
        std::fs::rename(&part, &path).map_err(Error::os("keeping a record"))?;
        Ok(path)
    }

    /// All records of an experiment that can be read, the oldest first, and what is wrong with the others.
    pub fn of(&self, experiment: &str) -> (Vec<Record>, Vec<Error>) {
        let (mut records, mut errors) = (Vec::new(), Vec::new());
        let Ok(entries) = std::fs::read_dir(self.folder.join(experiment)) else {
            return (records, errors);
        };
        let paths = entries.flatten().map(|entry| entry.path());
        for path in paths.filter(|path| path.extension().is_some_and(|e| e == "json")) {
            match Record::read(&path) {
                Ok(record) if record.experiment != experiment => {
                    let why = format!("{}: of experiment {}", path.display(), record.experiment);
                    errors.push(Error::Record(why));
                }
                Ok(record) => records.push(record),
                Err(error) => errors.push(error),
            }
        }
        records.sort_by_key(|record| record.taken_unix_s);
        (records, errors)
    }

    /// The record of an experiment that counts, the newest full one, or else the newest; how it differs from the
    /// one before; and what is wrong with records that cannot be read.
    pub fn newest(&self, experiment: &str) -> (Option<(Record, Option<Change>)>, Vec<Error>) {
        let (mut records, errors) = self.of(experiment);
        let full = records.iter().rposition(|record| !record.quick);
        let Some(at) = full.or(records.len().checked_sub(1)) else { return (None, errors) };
        let record = records.swap_remove(at);
        let change = Change::between(&records[..at], &record);
        (Some((record, change)), errors)
    }
}

/// A date for people, in UTC, of seconds since 1970.
pub fn date(unix_s: u64) -> String {
    let days = unix_s / 86_400;
    let (hour, minute) = (unix_s / 3600 % 24, unix_s / 60 % 60);
    // Days since 0000-03-01, in eras of 400 years (Howard Hinnant's civil_from_days).
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}
