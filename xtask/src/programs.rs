//! Test programs, several at a time: many of them wait for most of their time.
//!
//! Cargo builds them, and would run one after another. It calls `cargo xtask note` for each of them instead (its `runner`),
//! which writes down what it is called with, and [`run`] runs them from that list. Those that measure time, or suffer from
//! neighbours, run alone in the end (`only`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::only::{self, Alone, Options, Which};
use crate::shell::{Result, Tests, tests, timed};

/// Programs that run at once. Each has as many threads as there are processors; some of them wait at any time.
const AT_ONCE: usize = 3;

/// How long a program runs at most: what hangs is ended, and named.
const LIMIT: Duration = Duration::from_secs(900);

/// Where `note` finds the list.
const LIST: &str = "FUSEWIRE_XTASK_LIST";

/// A test program, as Cargo would run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The package that it is of.
    pub package: String,
    /// Where it lies.
    pub path: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
    /// What Cargo has set, and what it had itself.
    environment: Vec<(String, String)>,
}

impl Program {
    /// Its name, without the hash that Cargo appends.
    pub fn name(&self) -> &str {
        only::name(&self.path)
    }

    /// Where and how it is run.
    pub fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.args(&self.args).current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }

    fn emit(&self) -> Value {
        let Program { package, path, args, folder, environment } = self;
        json!({"package": package, "path": path, "args": args, "folder": folder, "environment": environment})
    }

    fn parse(line: &str) -> Option<Program> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let pair = |value: &Value| Some((text(value.get(0)?)?, text(value.get(1)?)?));
        Some(Program {
            package: text(&value["package"])?,
            path: text(&value["path"])?.into(),
            args: value["args"].as_array()?.iter().map(text).collect::<Option<_>>()?,
            folder: text(&value["folder"])?.into(),
            environment: value["environment"]
                .as_array()?
                .iter()
                .map(pair)
                .collect::<Option<_>>()?,
        })
    }
}

/// Lets `cargo`, which is `cargo test`, build programs, run the examples of the documentation, and say what it would run.
/// `ourselves` is this program. What failed after the build is told beside them.
pub fn built(
    name: &str,
    cargo: &mut Command,
    ourselves: &Path,
    which: Which<'_>,
) -> Result<(Vec<Program>, Result<Tests>)> {
    let list = List::new()?;
    let examples = tests(name, only::by(cargo, ourselves, "note", which).env(LIST, &list.0));
    let programs = list.read()?;
    match (programs.is_empty(), examples) {
        (true, Err(failed)) => Err(failed),
        (_, examples) => Ok((programs, examples)),
    }
}

/// A file that is removed.
struct List(PathBuf);

impl List {
    fn new() -> Result<List> {
        let path = std::env::temp_dir().join(format!("fusewire-programs-{}", std::process::id()));
        File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(List(path))
    }

    fn read(&self) -> Result<Vec<Program>> {
        let failed = |e: &dyn fmt::Display| format!("{}: {e}", self.0.display());
        let text = std::fs::read_to_string(&self.0).map_err(|e| failed(&e))?;
        let program = |line| Program::parse(line).ok_or_else(|| failed(&"not a list of programs"));
        text.lines().map(program).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What Cargo calls for each program: notes it, if it is chosen. An example of the documentation is run.
pub fn note(options: &Options) -> Result {
    let (path, args) = options.parts()?;
    let path = Path::new(path);
    let Some(package) = only::package(path) else { return Ok(()) };
    // Rustdoc's lie in a folder that is removed.
    if path.parent().and_then(Path::file_name).is_none_or(|folder| folder != "deps") {
        let mut command = Command::new(path);
        let error = only::forget(command.args(args)).env_remove(LIST).exec();
        return Err(format!("cannot start {}: {error}", path.display()));
    }
    let folder = std::env::current_dir().map_err(|e| format!("our folder: {e}"))?;
    let text = |text: std::ffi::OsString| text.into_string().ok();
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    let program = Program {
        package,
        path: folder.join(path),
        args: args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect(),
        folder,
        environment: environment.filter(|(name, _)| name != LIST && !only::is_ours(name)).collect(),
    };
    let list = std::env::var_os(LIST).ok_or_else(|| format!("{LIST} is not set"))?;
    let failed = |e| format!("{}: {e}", list.display());
    let mut file = OpenOptions::new().append(true).open(&list).map_err(failed)?;
    file.write_all(format!("{}\n", program.emit()).as_bytes()).map_err(failed)
}

/// A program, or some of its tests.
struct Part<'a> {
    program: &'a Program,
    /// Arguments that choose among its tests.
    chosen: Vec<&'a str>,
}

/// What failed in a program.
struct Failure<'a> {
    program: &'a Program,
    /// The tests that say so; none if the program says nothing of them.
    tests: Vec<String>,
    /// How it ended.
    end: String,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { program, tests, end } = self;
        let what = if tests.is_empty() { end } else { &tests.join(", ") };
        write!(f, "{} {}: {what}", program.package, program.name())
    }
}

/// What a step ran, all of which passed.
#[derive(Debug)]
pub struct Ran {
    /// How many tests.
    pub tests: Tests,
    /// The programs, by their paths, of which a test did not run to its end.
    pub skipping: BTreeSet<PathBuf>,
}

/// What ran.
#[derive(Default)]
struct Outcome<'a> {
    tests: Tests,
    failed: Vec<Failure<'a>>,
    /// What tests say that did not run to their end, and how many say it.
    skipped: BTreeMap<String, usize>,
    /// Where they are.
    skipping: BTreeSet<PathBuf>,
}

/// Runs all programs as one step, each as `command` builds it, and counts their tests. Prints the output of each program when it
/// ends, then the skipped tests, then the failed ones. A test that failed is never run again: a failure next to other programs
/// is a defect of the test or of what it tests.
pub fn run(
    name: &str,
    programs: &[Program],
    command: impl Fn(&Program) -> Command + Sync,
) -> Result<Ran> {
    let (together, alone) = parts(programs);
    timed(name, || {
        let outcome = Mutex::default();
        several(&together, AT_ONCE, &command, &outcome);
        several(&alone, 1, &command, &outcome);
        let outcome: Outcome<'_> = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Outcome { tests, failed, skipped, skipping } = outcome;
        if !skipped.is_empty() {
            println!("── skipped, by how many tests:");
            skipped.iter().for_each(|(why, tests)| println!("{tests:7}  {why}"));
        }
        if failed.is_empty() {
            return Ok(Ran { tests, skipping });
        }
        println!("── failed:");
        failed.iter().for_each(|failed| println!("   {failed}"));
        Err(format!("{name}: {} failed", failed.len()))
    })
}

/// Those that run beside others, the longest first, and those that run alone.
fn parts(programs: &[Program]) -> (Vec<Part<'_>>, Vec<Part<'_>>) {
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for program in programs {
        let part = |chosen| Part { program, chosen };
        match only::alone(&program.package, program.name()) {
            Alone::No => together.push(part(Vec::new())),
            Alone::Yes => alone.push(part(Vec::new())),
            Alone::Some(tests) => {
                together.push(part(vec!["--skip", tests]));
                alone.push(part(vec![tests]));
            }
        }
    }
    together.sort_by_key(|part| !only::is_long(&part.program.package, part.program.name()));
    (together, alone)
}

fn several<'a>(
    parts: &[Part<'a>],
    at_once: usize,
    command: &(impl Fn(&Program) -> Command + Sync),
    outcome: &Mutex<Outcome<'a>>,
) {
    let next = Mutex::new(parts.iter());
    let work = || {
        let part = || locked(&next).next();
        while let Some(part) = part() {
            part.run(command(part.program), outcome);
        }
    };
    std::thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Part<'a> {
    fn run(&self, mut command: Command, outcome: &Mutex<Outcome<'a>>) {
        let start = Instant::now();
        let ended = output(command.args(&self.chosen).arg("--show-output"), LIMIT);
        let (package, program) = (&self.program.package, self.program.name());
        let failure = |tests, end| Failure { program: self.program, tests, end };
        let mut outcome = locked(outcome);
        let of_it: String = self.chosen.iter().map(|word| format!(" {word}")).collect();
        let seconds = start.elapsed().as_secs_f64();
        println!("── {package} {program}{of_it}: {seconds:.1} s");
        let (text, end) = match ended {
            Ok(ended) => ended,
            Err(error) => return outcome.failed.push(failure(Vec::new(), error.to_string())),
        };
        let said = without_successes(&text);
        println!("{}", said.trim_end());
        said.lines().for_each(|line| outcome.tests.count(line));
        for line in text.lines() {
            if let Some(why) = line.strip_prefix("skipped: ") {
                // Whose need it is, each test has said.
                let why = why.find(" needs ").map_or(why, |at| &why[at + 1..]);
                *outcome.skipped.entry(why.to_owned()).or_default() += 1;
                outcome.skipping.insert(self.program.path.clone());
            }
        }
        let Some(end) = end else { return };
        let tests = said.lines().filter_map(failed).map(str::to_owned).collect();
        outcome.failed.push(failure(tests, end));
    }
}

/// The test of which a line says that it failed.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// What a program says, without what its tests say that passed.
fn without_successes(text: &str) -> String {
    const SUCCESSES: &str = "\nsuccesses:\n";
    let Some((before, rest)) = text.split_once(SUCCESSES) else { return text.into() };
    // What they say, which may look like all of this; and then their names, under the same words.
    let rest = rest.rsplit_once(SUCCESSES).map_or(rest, |(_, names)| names);
    let after = ["\nfailures:\n", "\ntest result: "].map(|end| rest.find(end));
    let after = after.into_iter().flatten().min().map_or("", |at| &rest[at..]);
    format!("{before}{after}")
}

/// A file that nobody finds, and that is gone with its last descriptor.
fn unnamed() -> std::io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("fusewire-output-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// A process, and those that it has started, and they.
fn with_descendants(process: u32) -> Vec<u32> {
    let of_all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = of_all
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            // The second field, a name in brackets, may have anything in it (proc_pid_stat(5)).
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((process, parent))
        })
        .collect();
    let mut all = vec![process];
    let mut at = 0;
    while at < all.len() {
        let parent = all[at];
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        at += 1;
    }
    all
}

/// What a program says, both ways, and how it ended if it failed, or was ended after `limit`. By a file: what it started and left
/// behind may keep a pipe open.
fn output(command: &mut Command, limit: Duration) -> std::io::Result<(String, Option<String>)> {
    let mut file = unnamed()?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > limit {
            // What hangs may be what it has started.
            let all = with_descendants(child.id());
            Command::new("kill").arg("-KILL").args(all.iter().map(u32::to_string)).status()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let end = match status {
        None => Some(format!("ended after {} s", limit.as_secs())),
        Some(status) => (!status.success()).then(|| status.to_string()),
    };
    Ok((String::from_utf8_lossy(&bytes).into_owned(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(package: &str, name: &str) -> Program {
        Program {
            package: package.into(),
            path: format!("/target/debug/deps/{name}-0123456789abcdef").into(),
            args: Vec::new(),
            folder: "/".into(),
            environment: vec![("SAYS".into(), "a \"word\"".into())],
        }
    }

    fn shell(script: &'static str) -> impl Fn(&Program) -> Command + Sync {
        move |program: &Program| {
            let mut command = Command::new("/bin/sh");
            // The tests that are chosen are arguments of the script.
            program.prepare(command.args(["-c", script, "sh"]));
            command
        }
    }

    #[test]
    fn a_program_is_as_it_was_noted() {
        let noted = program("fusewire-stack", "ip");
        assert_eq!(Program::parse(&noted.emit().to_string()), Some(noted.clone()));
        assert_eq!(noted.name(), "ip");
        assert_eq!(Program::parse("{}"), None);
    }

    #[test]
    fn all_run_whatever_fails_and_are_counted() {
        let both = [program("a", "fails"), program("a", "passes"), program("b", "passes")];
        let script = "echo test one ... ok; echo \"test result: ok. 2 passed; 0 failed\"; echo \"$SAYS\" >&2";
        let ran = run("programs that pass", &both[1..], shell(script)).unwrap();
        assert_eq!(ran.tests.to_string(), "tests: 4, programs: 2, left out: 0");
        let fails = |program: &Program| match program.name() {
            "fails" => shell("echo test two ... FAILED; exit 101")(program),
            _ => shell(script)(program),
        };
        let outcome = Mutex::default();
        several(&parts(&both).0, 2, &fails, &outcome);
        let outcome = outcome.into_inner().unwrap();
        assert_eq!(Vec::from_iter(outcome.failed.iter().map(Failure::to_string)), ["a fails: two"]);
        assert_eq!(outcome.tests.passed, 4);
        assert!(run("programs that fail", &both, fails).unwrap_err().contains("1 failed"));
    }

    #[test]
    fn a_failed_test_fails_the_run_even_if_it_passes_alone() {
        let one = [program("a", "x")];
        let script = "[ \"$1\" = --exact ] && { echo \"test result: ok. 1 passed; 0 failed\"; exit; }; echo test two ... FAILED; exit 101";
        let error = run("a test that passes alone", &one, shell(script)).unwrap_err();
        assert!(error.contains("1 failed"), "{error}");
    }

    #[test]
    fn several_run_at_once_and_what_measures_does_not() {
        // Each waits until the others are there.
        let folder = std::env::temp_dir().join(format!("fusewire-beside-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut three = ["x", "y", "z"].map(|name| program("fusewire-stack", name));
        for program in &mut three {
            program.folder.clone_from(&folder);
        }
        let meets = "touch $$; for i in 0 1 2 3 4 5 6 7 8 9; do [ $(ls | wc -l) = 3 ] && exit; sleep 1; done; exit 1";
        run("programs that meet", &three, shell(meets)).unwrap();
        std::fs::remove_dir_all(folder).unwrap();

        let programs =
            [program("fusewire", "inca"), three[0].clone(), program("fusewire-lab", "interop")];
        let of = |parts: Vec<Part<'_>>| {
            Vec::from_iter(
                parts.iter().map(|part| (part.program.name().to_owned(), part.chosen.join(" "))),
            )
        };
        let (together, alone) = parts(&programs);
        let named = |name: &str, chosen: &str| (name.to_owned(), chosen.to_owned());
        assert_eq!(of(together), [named("interop", "--skip floods::"), named("x", "")]);
        assert_eq!(of(alone), [named("inca", ""), named("interop", "floods::")]);
    }

    #[test]
    fn what_a_program_left_behind_does_not_hold_us_up() {
        let mut shell = Command::new("/bin/sh");
        let (text, end) = output(shell.args(["-c", "sleep 600 & echo $!; exit 3"]), LIMIT).unwrap();
        assert!(end.is_some_and(|end| end.contains('3')));
        Command::new("kill").arg(text.trim()).status().unwrap();
    }

    #[test]
    fn what_hangs_is_ended() {
        let mut hangs = Command::new("/bin/sh");
        let hangs = hangs.args(["-c", "sleep 600 & echo $!; wait"]);
        let (text, end) = output(hangs, Duration::from_secs(1)).unwrap();
        assert_eq!(end.as_deref(), Some("ended after 1 s"));
        let is_there = format!("/proc/{}", text.trim());
        // Whoever is its parent now has to take it first.
        let ended = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let stat = std::fs::read_to_string(format!("{is_there}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        });
        assert!(ended, "{text}");
    }

    #[test]
    fn what_is_skipped_is_said_once() {
        let says = "\nrunning 2 tests\ntest a ... ok\n\nsuccesses:\n\n---- a stdout ----\ntest result: ok. 9 passed;\nskipped: a needs root\n\n\nsuccesses:\n    a\n\ntest result: ok. 1 passed;\n";
        assert_eq!(
            without_successes(says),
            "\nrunning 2 tests\ntest a ... ok\n\ntest result: ok. 1 passed;\n"
        );
        assert_eq!(without_successes("no tests"), "no tests");
        let outcome = Mutex::default();
        let both = [program("a", "x"), program("b", "y")];
        several(&parts(&both).0, 1, &shell("echo skipped: $0 needs what a test says"), &outcome);
        let skipped = outcome.into_inner().unwrap().skipped;
        assert_eq!(Vec::from_iter(skipped), [("needs what a test says".to_owned(), 2)]);
    }
}
