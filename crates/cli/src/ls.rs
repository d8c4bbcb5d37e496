//! `fusewire ls`.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use clap::Args;
use fusewire_files::client::list::{self, List};
use fusewire_files::net::said_first;
use fusewire_files::{Entry, Error, Kind, RemotePath, Shown};
use serde_json::json;

use crate::connect::{Connect, Connector};
use crate::output::{Code, EXIT_CODES, Failure, Result, count, json_line, with_path};
use crate::url::Url;

/// Entries that are held to be sorted; the server has them in no order.
const SORTED_MAX: usize = 100_000;

/// What to list.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ls {
    /// fusewire://host[:port]/path of a folder or a file.
    url: Url,
    /// Folders below too.
    #[arg(short, long)]
    recursive: bool,
    /// Kind (d a folder, l a link, ? a device, pipe or socket), permissions, size and time (UTC) too.
    #[arg(short, long)]
    long: bool,
    /// Print a line of JSON for each entry.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Lists it.
pub fn run(ls: &Ls) -> Result {
    let mut connector = Connector::new(&ls.connect, &ls.url)?;
    let mut lines = Lines {
        out: std::io::BufWriter::new(std::io::stdout().lock()),
        held: Vec::new(),
        many: false,
    };
    let (mut written, mut unread) = (Ok(()), 0);
    let never = AtomicBool::new(false);
    let show = |path: &RemotePath, entry: &Entry| {
        if written.is_ok() {
            written = line(ls, path, entry).and_then(|line| lines.add(path, line));
        }
        if entry.unread {
            unread += 1;
            eprintln!("fusewire: {}", not_listed(&list::unread(&ls.url.path, path), path));
        }
    };
    let mut list = List::new(ls.url.path.clone(), ls.recursive, connector.element(), show)?;
    let first = said_first(&mut |channel, scratch, now| list.turn(channel, scratch, now))?;
    let mut link = connector.open_saying(&first)?;
    let result = link.run(&never, &mut |channel, scratch, now| list.turn(channel, scratch, now));
    drop(list);
    written.and_then(|()| lines.flush())?;
    match result {
        Ok(_) if unread > 0 => {
            let text = format!("{} not listed", count(unread, "folder"));
            Err(Failure::new(Code::Failed, text).into())
        }
        Ok(_) => Ok(()),
        Err(error) if error.is_about_one_file() => {
            Err(Failure::new(Code::Failed, format!("{}: {error}", ls.url)).into())
        }
        Err(error) => Err(Failure::new(Code::Connection, error.to_string()).into()),
    }
}

/// Returns the line for a folder that the server did not list.
fn not_listed(error: &Error, path: &RemotePath) -> String {
    let why = match error {
        Error::Path { problem, .. } => problem.to_string(),
        error => error.to_string(),
    };
    format!("cannot list {path}: {why}")
}

/// Lines sorted by their paths; of more than [`SORTED_MAX`] only those that came first.
struct Lines<W: Write> {
    out: W,
    held: Vec<(Vec<u8>, String)>,
    /// There were too many to hold.
    many: bool,
}

impl<W: Write> Lines<W> {
    fn add(&mut self, path: &RemotePath, line: String) -> std::io::Result<()> {
        if self.many {
            return writeln!(self.out, "{line}");
        }
        // A folder stands right before what is in it.
        let key = path.as_bytes().iter().map(|&byte| if byte == b'/' { 0 } else { byte });
        self.held.push((key.collect(), line));
        if self.held.len() >= SORTED_MAX {
            self.many = true;
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let mut held = std::mem::take(&mut self.held);
        held.sort();
        held.iter().try_for_each(|(_, line)| writeln!(self.out, "{line}"))?;
        self.out.flush()
    }
}

fn line(ls: &Ls, path: &RemotePath, entry: &Entry) -> std::io::Result<String> {
    // A file that was named itself has no path below itself.
    let own = ls.url.path.name().unwrap_or_default();
    let shown = if path.as_bytes().is_empty() { Shown(own).to_string() } else { path.to_string() };
    let meta = &entry.meta;
    if ls.json {
        let kind = match meta.kind {
            Kind::File => "file",
            Kind::Folder => "folder",
            Kind::Link => "link",
            Kind::Other | Kind::Unknown(_) => "other",
        };
        let value = json!({
            "kind": kind,
            "bytes": meta.size,
            "mode": format!("{:04o}", meta.mode),
            "mtime_s": meta.mtime.s,
            "mtime_ns": meta.mtime.ns,
            "target": null,
            "unread": entry.unread,
        });
        let bytes = if path.as_bytes().is_empty() { own } else { path.as_bytes() };
        let mut value = with_path(value, "path", bytes);
        if !entry.target.is_empty() {
            value = with_path(value, "target", &entry.target);
        }
        return json_line(&value).map_err(|error| std::io::Error::other(error.to_string()));
    }
    let end = match meta.kind {
        Kind::Folder => "/",
        _ => "",
    };
    let mut text = format!("{shown}{end}");
    if !entry.target.is_empty() {
        text += &format!(" -> {}", Shown(&entry.target));
    }
    if !ls.long {
        return Ok(text);
    }
    let letter = match meta.kind {
        Kind::File => '-',
        Kind::Folder => 'd',
        Kind::Link => 'l',
        Kind::Other | Kind::Unknown(_) => '?',
    };
    Ok(format!("{letter}{} {:>14}  {}  {text}", mode(meta.mode), meta.size, time(meta.mtime.s)))
}

fn mode(bits: u16) -> String {
    let letter =
        |i: u16| if bits >> (8 - i) & 1 == 1 { ['r', 'w', 'x'][i as usize % 3] } else { '-' };
    (0..9).map(letter).collect()
}

/// Seconds since 1970 as a date in UTC (Howard Hinnant's `civil_from_days`).
fn time(s: i64) -> String {
    let (days, rest) = (s.div_euclid(86_400) + 719_468, s.rem_euclid(86_400));
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}Z", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_as_long_as_they_can_be_held() {
        let mut lines = Lines { out: Vec::new(), held: Vec::new(), many: false };
        for name in ["b", "a b", "a/z", "a", "a/b", "ab"] {
            let path = RemotePath::from_user(name.as_bytes()).unwrap();
            lines.add(&path, name.to_string()).unwrap();
        }
        lines.flush().unwrap();
        assert_eq!(String::from_utf8(lines.out).unwrap(), "a\na/b\na/z\na b\nab\nb\n");
        let mut lines = Lines { out: Vec::new(), held: Vec::new(), many: false };
        for n in (0..SORTED_MAX + 2).rev() {
            let name = format!("{n:06}");
            lines.add(&RemotePath::from_user(name.as_bytes()).unwrap(), name).unwrap();
            assert!(lines.held.len() < SORTED_MAX);
        }
        lines.flush().unwrap();
        let text = String::from_utf8(lines.out).unwrap();
        assert!(text.starts_with("000002\n000003\n") && text.ends_with("000001\n000000\n"));
    }

    #[test]
    fn modes_and_times() {
        assert_eq!(mode(0o754), "rwxr-xr--");
        assert_eq!(time(0), "1970-01-01 00:00Z");
        assert_eq!(time(951_782_400), "2000-02-29 00:00Z");
        assert_eq!(time(1_700_000_000), "2023-11-14 22:13Z");
        assert_eq!(time(-1), "1969-12-31 23:59Z");
        let _ = time(i64::MIN / 2);
    }
}
