//! `fusewire lab` runs experiments, keeps records, and makes a page whose charts a browser draws.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::{Done, World};

/// Experiments that are short in the quick form, and need nothing.
const SHORT: [&str; 3] = ["maclean-throughput", "dabbous-checksums", "braun-units"];

fn run(world: &World, records: &str) {
    let args = [&["lab", "run", "--quick", "--json", "--records", records], &SHORT[..]].concat();
    let lines = world.run("alice", &args).ok().lines();
    assert_eq!(lines.len(), SHORT.len());
    for (line, name) in lines.iter().zip(SHORT) {
        assert_eq!(line["experiment"], name);
        assert!(!line["points"].as_array().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn a_report_of_a_missing_folder_is_refused() {
    let world = World::new();
    let (missing, out) = (world.path("no-such-folder"), world.path("out"));
    let args =
        ["lab", "report", "--records", missing.to_str().unwrap(), "-o", out.to_str().unwrap()];
    let done = world.run("alice", &args);
    assert!(done.code == 2 && done.err.contains("expected a folder of records"), "{done:?}");
    assert!(!out.exists(), "no empty report is written");
}

#[test]
fn experiments_run_and_are_kept() {
    let world = World::new();
    let folder = world.path("records");
    let records = folder.to_str().unwrap();
    run(&world, records);
    for name in SHORT {
        assert_eq!(std::fs::read_dir(folder.join(name)).unwrap().count(), 1, "{name}");
    }
    let again =
        world.run("alice", &["lab", "run", "maclean-throughput", "--quick", "--records", records]);
    // Computed, so that nothing has changed.
    let again = again.ok().out;
    assert!(again.contains("+0.0 % since"), "{again}");
    let list = world.run("alice", &["lab", "list", "--json", "--records", records]).ok().lines();
    let of = |name: &str| list.iter().find(|line| line["experiment"] == name).unwrap();
    assert!(of("maclean-throughput")["record_taken"].is_string());
    let unknown = world.run("alice", &["lab", "run", "nothing", "--records", records]);
    assert!(unknown.code == 2 && unknown.err.contains("no experiment"), "{unknown:?}");
    // Nothing is measured that could not be kept.
    std::fs::write(world.path("taken"), "").unwrap();
    let taken = world.path("taken").join("records");
    let refused = ["lab", "run", "maclean-throughput", "--records", taken.to_str().unwrap()];
    let refused = world.run("alice", &refused);
    assert!(
        refused.code == 1 && refused.err.contains("opening the folder of records"),
        "{refused:?}"
    );
}

/// Dabbous's tables over one wire, by five transports in processes of their own: each chart, network and ADU size has a value.
#[test]
fn xtps_tables_are_whole() {
    let world = World::new();
    let folder = world.path("records");
    let args = ["lab", "run", "dabbous-xtp", "--quick", "--json", "--records"];
    let lines = world.run("alice", &[&args[..], &[folder.to_str().unwrap()]].concat()).ok().lines();
    let points = lines[0]["points"].as_array().unwrap();
    for (chart, series) in [
        ("table-7", &["kernel UDP", "XTP without repetition"][..]),
        ("table-8", &["kernel TCP", "our TCP in UDP", "XTP"]),
        ("throughput", &["XTP", "kernel TCP"]),
        ("gain", &["XTP"]),
        ("figure-1", &["sender", "receiver"]),
    ] {
        for network in ["Ethernet", "FDDI"] {
            for series in series {
                let name = format!("{series}, {network}");
                let is = |p: &&serde_json::Value| p["chart"] == chart && p["series"] == name[..];
                let found: Vec<_> = points.iter().filter(is).collect();
                let sizes = match chart {
                    "throughput" | "gain" => 4,
                    "figure-1" => 3,
                    _ => 2,
                };
                assert_eq!(found.len(), sizes, "{chart}: {name}");
                assert!(found.iter().all(|p| p["value"].as_f64() > Some(0.0)), "{found:?}");
            }
        }
    }
}

#[test]
fn what_is_done_is_kept_when_ctrl_c_ends_the_rest() {
    let world = World::new();
    let folder = world.path("records");
    let args = [
        &["lab", "run", "maclean-throughput", "dabbous-checksums", "braun-units", "braun-loops"][..],
        &["--records", folder.to_str().unwrap()],
    ];
    let mut command = world.command("alice", &args.concat());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let kept = || std::fs::read_dir(folder.join("maclean-throughput")).map_or(0, Iterator::count);
    let start = Instant::now();
    while kept() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is kept");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let done = Done::of(running).failed(130, "interrupted; 1 record kept in");
    assert!(done.out.starts_with("maclean-throughput"), "{done:?}");
    assert!(!folder.join("dabbous-checksums").exists(), "half a record was kept");
    let list = ["lab", "list", "--json", "--records", folder.to_str().unwrap()];
    let list = world.run("alice", &list).ok().lines();
    let taken = list.iter().filter(|line| line["record_taken"].is_string()).count();
    assert_eq!(taken, 1);
}

#[test]
fn a_bad_record_is_named_and_the_page_is_made() {
    let world = World::new();
    let folder = world.path("records");
    std::fs::create_dir_all(folder.join("braun-units")).unwrap();
    std::fs::write(folder.join("braun-units/9.json"), "{\"schema\":9}").unwrap();
    let out = world.path("page");
    let args =
        ["lab", "report", "-o", out.to_str().unwrap(), "--records", folder.to_str().unwrap()];
    let done = world.run("alice", &args);
    assert!(done.code == 1 && done.err.contains("9.json: of version 9"), "{done:?}");
    assert!(out.join("index.html").is_file());
}

/// Debian's, or others'.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

fn chromium(world: &World, name: &str, args: &[&str]) -> String {
    let profile = format!("--user-data-dir={}", world.path("profile").display());
    let fixed =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &profile];
    let output =
        Command::new("timeout").args(["120", name]).args(fixed).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a pointer does over every chart: each must answer.
const POINTER: &str = r#"<script>
let answered = 0;
for (const page of document.querySelectorAll("section.page")) {
  location.hash = page.id;
  for (const other of document.querySelectorAll("section.page")) other.classList.toggle("here", other === page);
  for (const svg of page.querySelectorAll(".panel svg")) {
    const box = svg.getBoundingClientRect();
    let found = false;
    for (let i = 1; i < 12 && !found; i++) for (let j = 1; j < 12 && !found; j++) {
      const at = { clientX: box.left + box.width * i / 12, clientY: box.top + box.height * j / 12, bubbles: true };
      svg.dispatchEvent(new PointerEvent("pointermove", at));
      found = getComputedStyle(document.querySelector(".tip")).display === "block";
    }
    if (found) answered++;
    svg.dispatchEvent(new PointerEvent("pointerleave"));
  }
}
document.documentElement.dataset.answered = answered;
// A click on a name takes its marks away, another brings them back; the last cannot be taken.
let toggled = 0, several = 0;
const marks = (figure) => [...figure.querySelectorAll(".panel svg")].reduce((sum, svg) => sum + Number(svg.dataset.marks || 0), 0);
for (const figure of document.querySelectorAll("figure.chart")) {
  const keys = [...figure.querySelectorAll(".key")], before = marks(figure);
  if (keys.length > 1) several++;
  keys[0].click();
  const without = marks(figure);
  keys[0].click();
  if (keys.length > 1 && without < before && without > 0 && marks(figure) === before) toggled++;
  for (const key of keys) key.click();
  if (!marks(figure)) toggled = -1000;
  for (const key of keys) if (key.getAttribute("aria-pressed") === "false") key.click();
}
document.documentElement.dataset.toggled = toggled === several && several > 5 ? "yes" : `${toggled} of ${several}`;
</script>"#;

#[test]
fn a_browser_draws_every_chart() {
    let Some(name) = browser() else {
        eprintln!("skipped: no chromium here (Debian's package chromium)");
        return;
    };
    let world = World::new();
    let (records, out) = (world.path("records"), world.path("page"));
    run(&world, records.to_str().unwrap());
    let args =
        ["lab", "report", "-o", out.to_str().unwrap(), "--records", records.to_str().unwrap()];
    world.run("alice", &args).ok();
    let page = out.join("index.html");
    let text = std::fs::read_to_string(&page).unwrap();
    let charts = text.matches("<figure class=\"chart").count();
    assert!(charts > 10, "{charts} charts");
    let touched = out.join("touched.html");
    std::fs::write(&touched, text + POINTER).unwrap();
    let address = |path: &Path, rest: &str| format!("file://{}{rest}", path.display());
    let dom = chromium(&world, name, &["--dump-dom", &address(&touched, "")]);
    let head: String = dom.chars().take(600).collect();
    assert!(dom.contains("data-ready=\"yes\"") && !dom.contains("data-errors="), "{head}");
    assert_eq!(dom.matches("data-drawn=\"yes\"").count(), charts);
    let panels = dom.matches("data-marks=").count();
    assert!(dom.contains(&format!("data-answered=\"{panels}\"")), "of {panels} panels: {head}");
    assert!(dom.contains("data-toggled=\"yes\""), "{head}");
    // Pictures that a person looks at: where FUSEWIRE_LAB_PICTURES says.
    let pictures = std::env::var_os("FUSEWIRE_LAB_PICTURES")
        .map_or_else(|| world.path("pictures"), PathBuf::from);
    std::fs::create_dir_all(&pictures).unwrap();
    for (name_of, rest) in
        [("answer", ""), ("checksums", "#dabbous-checksums"), ("dark", "?dark#maclean-throughput")]
    {
        let file = pictures.join(format!("{name_of}.png"));
        let shot = format!("--screenshot={}", file.display());
        chromium(&world, name, &[&shot, "--window-size=1400,1800", &address(&page, rest)]);
        assert!(std::fs::metadata(&file).unwrap().len() > 10_000, "{name_of}");
    }
}
