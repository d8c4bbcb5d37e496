//! `cargo xtask suites`: the test suites of programs and libraries themselves, once on the kernel's sockets and once over an
//! outboard, and what of that which passes on the kernel passes over the outboard.
//!
//! The suites are Debian's, or their authors', fetched to `target/suites` and used as they are; nothing of them is in this repository. Each run
//! has a network namespace and processes of its own, gone when it ends. A suite's script says `ok NAME`, `failed NAME` or
//! `skipped NAME`, a test a line.

mod list;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};

use crate::shell::{Result, cargo, has, install, is_root, root, step};
use list::{ALL, From, Suite, WANTED};

/// Which suites, and where.
#[derive(Args, Default)]
pub struct Options {
    /// Suites; all when there is none.
    names: Vec<String>,
    /// Only on these sockets.
    #[arg(long, value_enum, value_delimiter = ',')]
    over: Vec<Over>,
}

/// Whose sockets a suite has, its servers' and its clients'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// The kernel's.
    Kernel,
    /// An outboard's, that of loopback included.
    Outboard,
}

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// All tests of a run, by name.
type Outcomes = BTreeMap<String, Outcome>;

/// Runs them; fails when one passes less than is wanted.
pub fn run(options: &Options) -> Result {
    if !is_root() || !has("unshare") {
        println!("── suites: left out, which need root and unshare");
        return Ok(());
    }
    if let Some(unknown) = options.names.iter().find(|name| ALL.iter().all(|s| s.name != **name)) {
        let names: Vec<_> = ALL.iter().map(|suite| suite.name).collect();
        return Err(format!("no suite {unknown:?}: expected one of {}", names.join(", ")));
    }
    step("fusewire", cargo().args(["build", "--release"]))?;
    let wanted =
        |suite: &&Suite| options.names.is_empty() || options.names.iter().any(|n| n == suite.name);
    let mut few = Vec::new();
    for suite in ALL.iter().filter(wanted) {
        match whole(suite, &options.over) {
            Ok(true) => {}
            Ok(false) => few.push(suite.name),
            Err(why) => println!("   {}: left out: {why}", suite.name),
        }
    }
    match few.is_empty() {
        true => Ok(()),
        false => Err(format!("too little of what passes on the kernel: {}", few.join(", "))),
    }
}

/// Whether enough passes.
fn whole(suite: &Suite, over: &[Over]) -> Result<bool> {
    install(suite.tools);
    if let Some((missing, _)) = suite.tools.iter().find(|(program, _)| !has(program)) {
        return Err(format!("{missing} is not there"));
    }
    let folder = root().join("target/suites").join(suite.name);
    fetch(suite, &folder)?;
    let is_wanted = |one: Over| over.is_empty() || over.contains(&one);
    let on = |one: Over| is_wanted(one).then(|| play(suite, &folder, one)).transpose();
    let (kernel, outboard) = (on(Over::Kernel)?, on(Over::Outboard)?);
    for (name, outcomes) in [("kernel", &kernel), ("outboard", &outboard)] {
        if let Some(outcomes) = outcomes {
            let of = |wanted| outcomes.values().filter(|outcome| **outcome == wanted).count();
            let counts = [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(of);
            let [passed, failed, skipped] = counts;
            println!(
                "   {}, {name}: {passed} passed, {failed} failed, {skipped} skipped",
                suite.name
            );
        }
    }
    let (Some(kernel), Some(outboard)) = (kernel, outboard) else { return Ok(true) };
    let (passed, lost) = compare(&kernel, &outboard);
    lost.iter().for_each(|name| println!("   only on the kernel: {name}"));
    let kept = passed - lost.len();
    println!("   {}: {kept} of {passed} that pass on the kernel", suite.name);
    Ok(passed > 0 && kept * 100 >= passed * WANTED)
}

/// How many pass on the kernel, and which of them not over the outboard.
fn compare<'o>(kernel: &'o Outcomes, outboard: &Outcomes) -> (usize, Vec<&'o String>) {
    let passes = |(_, outcome): &(&String, &Outcome)| **outcome == Outcome::Passed;
    let names: Vec<_> = kernel.iter().filter(passes).map(|(name, _)| name).collect();
    let is_lost = |name: &&&String| outboard.get(**name) != Some(&Outcome::Passed);
    (names.len(), names.iter().filter(is_lost).copied().collect())
}

/// Gets a suite, once.
fn fetch(suite: &Suite, folder: &Path) -> Result {
    let is_there = folder.join(".ready");
    if is_there.is_file() {
        return Ok(());
    }
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let get = match suite.from {
        From::Nowhere => String::new(),
        From::Package(package) => {
            format!("apt-get -qq download {package} && dpkg -x {package}_*.deb .")
        }
        From::Repository(url) => format!("git clone -q --depth 1 {url} source"),
        // By a list of its own: that of the system may name no sources.
        From::Source(package) => format!(
            ". /etc/os-release\nmkdir -p lists/partial\n\
             echo \"deb-src http://deb.debian.org/debian $VERSION_CODENAME main\" >sources.list\n\
             apt() {{ apt-get -qq -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=- \
             -o Dir::State::lists=$PWD/lists \"$@\"; }}\n\
             apt update\napt source --download-only {package}\nmkdir source\n\
             rm -f ./*.asc\n\
             tar xf {package}_*.orig.tar.* --strip-components 1 -C source"
        ),
    };
    let mut command = Command::new("sh");
    command.args(["-e", "-c", &format!("{get}\n{}", suite.prepare)]).current_dir(folder);
    step(&format!("{}: fetch", suite.name), &mut command)?;
    fs::write(&is_there, "").map_err(|error| format!("{}: {error}", is_there.display()))
}

/// Runs a suite once.
fn play(suite: &Suite, folder: &Path, over: Over) -> Result<Outcomes> {
    let program = root().join("target/release/fusewire");
    let each = root().join("xtask/src/suites/each.py");
    let log = folder.join(format!("{over:?}.log"));
    let mut script = String::from("ip link set lo up\n");
    let limit = suite.minutes * 60;
    let mut command = format!("timeout --kill-after=10 {limit} sh -c \"$SCRIPT\"");
    if over == Over::Outboard {
        // No addresses of the kernel's: what libc tells a program of interfaces is told on the kernel's sockets, too.
        script += "ip link add v0 type veth peer name v1\n\
                   for link in v0 v1; do ip link set $link addrgenmode none up; done\n";
        command = format!(
            "{} run --quiet --device packet:v0 --address 10.9.0.2/24 --address fd00:9::2/64 --loopback -- {command}",
            program.display()
        );
    }
    script += &command;
    println!(
        "── {}: {over:?}, at most {} minutes; see {}",
        suite.name,
        suite.minutes,
        log.display()
    );
    let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let mut shell = Command::new("unshare");
    shell.args([
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-e",
        "-c",
        &script,
    ]);
    shell.env("SCRIPT", suite.run).env("EACH", each).current_dir(folder);
    shell.stdin(Stdio::null()).stdout(file).stderr(errors);
    shell.status().map_err(|error| format!("unshare: {error}"))?;
    Ok(read(&String::from_utf8_lossy(&fs::read(&log).unwrap_or_default())))
}

/// What a run has said. Of a name that came twice the worse counts.
fn read(said: &str) -> Outcomes {
    let mut all = Outcomes::new();
    for line in said.lines() {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let outcome = match word {
            "ok" => Outcome::Passed,
            "failed" => Outcome::Failed,
            "skipped" => Outcome::Skipped,
            _ => continue,
        };
        // What follows two spaces is why.
        let name = rest.split("  ").next().unwrap_or(rest).trim().to_owned();
        let known = all.entry(name).or_insert(outcome);
        if outcome == Outcome::Failed {
            *known = outcome;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_on_the_kernel_alone_is_lost() {
        let kernel = read("ok a\nok b\nfailed c  why\nskipped d\nnoise\nok e  took 1 s\n");
        let outboard = read("ok a\nok b\nfailed b  refused: late\nok c\nok d\n");
        assert_eq!(kernel.len(), 5);
        let (passed, lost) = compare(&kernel, &outboard);
        assert_eq!((passed, lost), (3, vec![&"b".to_owned(), &"e".to_owned()]));
    }
}
