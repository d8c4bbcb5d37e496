//! Records are data that anybody may have written; the report shows what they say and runs nothing of it.

use fusewire_lab::bench::Bench;
use fusewire_lab::experiment::Kind;
use fusewire_lab::experiments::{ALL, named};
use fusewire_lab::record::{At, Machine, Noise, Place, Point, Record, Records, SCHEMA, date};
use fusewire_lab::report::{Entry, entries, findings, html};

fn record(experiment: &str) -> Record {
    Record {
        schema: SCHEMA,
        experiment: experiment.to_owned(),
        taken_unix_s: 1_795_305_600,
        taken: date(1_795_305_600),
        seconds: 1.5,
        command: format!("fusewire lab run {experiment}"),
        program: "0.1.0".to_owned(),
        quick: true,
        machine: Machine {
            processor: "a processor".to_owned(),
            cpus: 2,
            level: "avx2".to_owned(),
            system: "Linux".to_owned(),
            caches: vec![("L1d".to_owned(), 32 << 10)],
        },
        noise: Noise { looks: 9, best_ns: 1e5, median_ns: 1.1e5, disturbed: 0.1, noisy: false },
        remarks: vec!["something was left out".to_owned()],
        points: vec![Place::new("table-6", "this machine", "op4").is(20.0)],
    }
}

#[test]
fn a_record_is_written_and_read() {
    let record = record("dabbous-checksums");
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(Record::parse(&text).unwrap(), record);
}

#[test]
fn what_no_run_can_have_found_is_named() {
    let text = serde_json::to_string(&record("dabbous-checksums")).unwrap();
    let cases = [
        ("\"schema\":1", "\"schema\":2", "of version 2, this program reads 1"),
        ("\"schema\":1", "\"schema\":-1", "no record"),
        ("\"cpus\":2", "\"cpus\":0", "machine.cpus is 0"),
        ("32768", "0", "machine.caches L1d is 0"),
        ("\"seconds\":1.5", "\"seconds\":-1.5", "seconds is -1.5"),
        ("\"disturbed\":0.1", "\"disturbed\":1.5", "noise.disturbed is 1.5"),
        ("\"value\":20.0", "\"value\":-20.0", "series this machine: the value -20"),
        ("\"value\":20.0", "\"value\":20.0,\"low\":30.0", "is absurd"),
        ("\"value\":20.0", "\"value\":20.0,\"samples\":0", "is absurd"),
        ("a processor", "a\\u001b[2Jprocessor", "control characters"),
        ("\"quick\":true", "\"quick\":true,\"more\":1", "unknown field"),
        ("}", "", "no record"),
    ];
    for (from, to, expected) in cases {
        assert!(text.contains(from), "{from}");
        let error = Record::parse(&text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{from} to {to}: {error}");
    }
}

#[test]
fn bad_files_are_named_and_left_out() {
    let folder = std::env::temp_dir().join(format!("fusewire-lab-{}", std::process::id()));
    let records = Records::at(folder.clone());
    let path = records.keep(&record("dabbous-checksums")).unwrap();
    std::fs::write(path.with_file_name("1.json"), "{\"schema\": 7}").unwrap();
    std::fs::write(path.with_file_name("2.json"), "not JSON").unwrap();
    let (entries, errors) = entries(&records);
    let found: Vec<_> = entries.iter().filter(|entry| entry.record.is_some()).collect();
    assert!(found.len() == 1 && found[0].experiment.name == "dabbous-checksums");
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(
        errors.len() == 2 && errors.iter().any(|e| e.contains("1.json: of version 7")),
        "{errors:?}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nothing_of_a_record_is_run() {
    let mut record = record("dabbous-checksums");
    let attack = "</script><script>alert(1)</script>";
    record.machine.processor = attack.to_owned();
    record.remarks.push(attack.to_owned());
    record.points.push(Place::new("table-6", attack, attack).is(1.0));
    let experiment = named("dabbous-checksums").unwrap();
    let page = html(&[Entry { experiment, record: Some(record), change: None }]);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

#[test]
fn the_report_needs_nothing_else() {
    let (entries, _) = entries(&Records::at("/nonexistent".into()));
    let page = html(&entries);
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        // The name of SVG is no address to fetch.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(outside), "{outside}");
    }
    for experiment in ALL.iter() {
        assert!(page.contains(&format!("<section class=\"page\" id=\"{}\">", experiment.name)));
    }
    assert_eq!(findings(&entries).len(), 14);
    assert!(findings(&entries).iter().all(|finding| !finding.known));
}

/// Those of which a short run is shorter than two seconds, and that need neither processes of their own nor rights.
const SHORT: [&str; 11] = [
    "braun-sum",
    "braun-memory-time",
    "braun-parts",
    "ahlgren-table-2",
    "ahlgren-figure-3",
    "ahlgren-figure-4",
    "ahlgren-figure-5",
    "ahlgren-future",
    "dabbous-subsystem",
    "inca-cold",
    "maclean-outboard",
];

#[test]
fn every_chart_of_a_short_experiment_has_points() {
    for name in SHORT {
        let experiment = named(name).unwrap();
        let mut watch = |_: f64, _: &str| true;
        let level = fusewire_kernels::Level::detect();
        let mut bench = Bench::new(true, level, "no program".into(), &mut watch);
        (experiment.run)(&mut bench).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (points, remarks, _) = bench.finish();
        assert!(remarks.is_empty(), "{name}: {remarks:?}");
        for chart in &experiment.charts {
            // What is the paper's alone is drawn beside nothing of ours.
            let papers = experiment.published.iter().any(|point| point.place.chart == chart.id);
            let ours: Vec<_> = points.iter().filter(|p| p.place.chart == chart.id).collect();
            assert!(papers || !ours.is_empty(), "{name}: nothing for {}", chart.id);
            for point in ours {
                let fits = match chart.kind {
                    Kind::Bars => matches!(point.place.at, At::Name(_)),
                    Kind::Lines { .. } => matches!(point.place.at, At::Number(_)),
                    Kind::Surface { .. } => point.place.second.is_some(),
                };
                assert!(fits && point.value.is_finite() && point.value >= 0.0, "{name}: {point:?}");
            }
        }
        for point in &points {
            assert!(
                experiment.chart(&point.place.chart).is_some(),
                "{name}: {point:?} in no chart"
            );
        }
    }
}

#[test]
fn dates_are_of_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00 UTC");
    assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(date(1_795_324_980), "2026-11-22 05:23 UTC");
}

/// The page of one experiment.
fn page_of(record: Record) -> String {
    let experiment = named(&record.experiment).unwrap();
    html(&[Entry { experiment, record: Some(record), change: None }])
}

#[test]
fn a_record_stands_beside_the_one_before() {
    let folder = std::env::temp_dir().join(format!("fusewire-lab-before-{}", std::process::id()));
    let records = Records::at(folder.clone());
    let before = record("dabbous-checksums");
    records.keep(&before).unwrap();
    let mut now = Record { taken_unix_s: before.taken_unix_s + 60, ..before.clone() };
    now.points[0].value *= 1.25;
    now.noise.median_ns *= 1.5;
    records.keep(&now).unwrap();
    let (entries, errors) = entries(&records);
    assert!(errors.is_empty());
    let page = html(&entries);
    let words = format!(
        "+25.0 % since {} in the middle, 1 of 1 beyond their spread; the control loop +50 %",
        before.taken
    );
    assert!(page.contains(&words), "{words}");
    assert!(page.contains("<td>+25.0\u{a0}%</td>"));
    // Another machine's says nothing of this one.
    let mut other = Record { taken_unix_s: now.taken_unix_s + 60, ..now };
    other.machine.cpus = 64;
    records.keep(&other).unwrap();
    assert!(html(&self::entries(&records).0).contains("there is none of this kind"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn even_one_round_is_called_rough_and_noisy() {
    let mut record = record("dabbous-udp");
    record.noise.noisy = true;
    record.points = vec![Place::new("throughput", "user level", 1000.0).is(5.0)];
    let computed = page_of(record.clone());
    assert!(!computed.contains("A quick run: ") && !computed.contains("The machine was noisy: "));
    record.points[0].samples = Some(1);
    let measured = page_of(record);
    assert!(measured.contains("A quick run: ") && measured.contains("The machine was noisy: "));
}

#[test]
fn the_first_page_answers_case_by_case() {
    let mut record = record("braun-loops");
    let case = |chart: &str, at: f64, ratio: f64| Point {
        samples: Some(3),
        ..Place::new(chart, "a cipher", at).is(ratio)
    };
    record.points = vec![
        case("gain-send", 256.0, 0.5),
        case("gain-send", 4096.0, 1.05),
        case("gain-receive", 4096.0, 1.5),
        case("blocked", 4096.0, 0.8),
    ];
    let page = page_of(record.clone());
    for words in [
        "<b>Sometimes.</b>",
        "in 1 of 3 cases, slower by more than 5 % in 1",
        "<td class=\"loss\">0.50</td>",
        "<td class=\"even\">1.05\u{2020}</td>",
        "<td class=\"gain\">1.50</td>",
        "One loop gains more than 10\u{a0}% in 1 of 3 cases.",
        "It loses more than 5\u{a0}% in 1 (a cipher), and changes little in 1.",
        "<p class=\"caution\">A quick run (all experiments): small differences mean nothing.</p>",
        "id=\"answer-gain\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    record.points.iter_mut().for_each(|point| point.value = 2.0);
    assert!(page_of(record).contains("<b>Mostly yes.</b>"));
}

#[test]
fn one_remark_about_noise_names_its_experiments() {
    let mut noisy = record("braun-loops");
    noisy.noise.noisy = true;
    noisy.points =
        vec![Point { samples: Some(3), ..Place::new("gain-send", "a cipher", 256.0).is(2.0) }];
    let mut quiet = record("dabbous-checksums");
    quiet.points = ["op4", "vectors"]
        .map(|form| Point {
            samples: Some(3),
            ..Place::new("table-6", "this machine", form).is(20.0)
        })
        .into();
    let entry = |record: Record| Entry {
        experiment: named(&record.experiment).unwrap(),
        record: Some(record),
        change: None,
    };
    let page = html(&[entry(noisy), entry(quiet)]);
    assert_eq!(page.matches("A quick run on a noisy machine").count(), 1);
    assert!(page.contains("A quick run on a noisy machine (braun-loops):"));
    assert!(page.contains("A quick run (dabbous-checksums):"));
}

/// Section 4.2 of Braun and Diot: one loop may move more bytes than passes, and the report must not claim savings then.
#[test]
fn the_report_claims_savings_only_if_bytes_were_saved() {
    let found = |sent: f64, received: f64| {
        let mut record = record("braun-memory");
        let here = "this machine, portable";
        let misses = |series: &str, value: f64| {
            Place::new("misses", series, "SuperSPARC: portable, receive").is(value)
        };
        record.points = vec![
            Place::new("saved", here, "send").is(sent),
            Place::new("saved", here, "receive").is(received),
            misses("ILP", 5.0),
            misses("non-ILP", 4.0),
        ];
        // Differences below zero can be kept and read again.
        let text = serde_json::to_string(&record).unwrap();
        page_of(Record::parse(&text).unwrap())
    };
    let cases = [
        (1.0, 1.0, "One loop reads and writes fewer bytes; it does not miss", "1.0 copies less"),
        (-0.5, -0.2, "One loop does not read and write fewer bytes;", "0.5 copies more"),
        (0.9, 0.0, "fewer bytes when sending only;", "0.0 copies less of"),
    ];
    for (sent, received, head, text) in cases {
        let page = found(sent, received);
        assert!(page.contains(head), "{sent} {received}: {head}");
        assert!(page.contains(text.trim_end_matches(" of")), "{sent} {received}: {text}");
    }
}

#[test]
fn the_report_names_the_sizes_at_which_udp_is_slower() {
    let mut record = record("inca-messages");
    record.points = [(10.0, 48.0), (4000.0, 1.0), (65_000.0, 0.27)]
        .map(|(size, ratio)| Place::new("gain", "UDP, this machine", size).is(ratio))
        .into();
    let page = page_of(record);
    let head = "UDP messages of 10 bytes are received faster, of 63.5 KiB slower.";
    assert!(page.contains(head));
}

/// A reader who learns a colour in one chart finds it in the next.
#[test]
fn a_meaning_has_one_colour_in_all_charts() {
    let mut record = record("inca-messages");
    let charts = [("throughput", ["kernel", "user level"]), ("device", ["user level", "kernel"])];
    record.points = charts
        .iter()
        .flat_map(|(chart, names)| names.map(|name| Place::new(chart, name, 1000.0).is(1.0)))
        .collect();
    let page = page_of(record);
    let colours = |name: &str| -> Vec<String> {
        let marked = format!("\"name\":\"{name}\"");
        // Keys are sorted: the colour precedes the name of a series.
        let before = page.match_indices(&marked).map(|(at, _)| &page[..at]);
        let of = |before: &str| {
            let at = before.rfind("\"colour\":").unwrap() + "\"colour\":".len();
            before[at..].chars().take_while(char::is_ascii_digit).collect()
        };
        before.map(of).collect()
    };
    for (name, colour) in [("kernel", "3"), ("user level", "2")] {
        let found = colours(name);
        assert!(found.len() >= 2 && found.iter().all(|found| found == colour), "{name}: {found:?}");
    }
}

/// Figure 1 of Dabbous: layer by layer, theirs and ours, with what the record says; and the finding beside the paper's.
#[test]
fn an_architecture_shows_what_its_layers_cost() {
    let mut record = record("dabbous-xtp");
    let of = |chart: &str, series: &str, at: f64, value: f64| Point {
        samples: Some(3),
        ..Place::new(chart, series, at).is(value)
    };
    record.points = vec![Place::new("figure-1", "sender, Ethernet", "kernel").is(1742.0)];
    for (network, xtp) in [("Ethernet", 20.0), ("FDDI", 30.0)] {
        let series = format!("XTP, {network}");
        record.points.extend([
            of("throughput", &series, 2000.0, xtp),
            of("throughput", &format!("kernel TCP, {network}"), 2000.0, 16.0),
            of("table-8", &format!("kernel TCP, {network}"), 5000.0, 25.0),
            of("gain", &series, 16_384.0, 1.0 + xtp / 1e3),
        ]);
    }
    let page = page_of(record.clone());
    for words in [
        "<h2>Figure 1: ",
        "<code>writev</code> and <code>readv</code>",
        "<td class=\"text\">sender, Ethernet 1742</td>",
        "XTP at user level carries 0.80 and 1.20 times what the kernel",
        "1.02 and 1.03 times as much goes through as with 2,000",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let layers = &named("dabbous-xtp").unwrap().layers;
    assert!(layers.len() == 5 && page.matches("<table class=\"layers\">").count() == 1);
}

#[test]
fn code_in_texts_is_code() {
    for experiment in ALL.iter() {
        for text in [experiment.method, experiment.differs] {
            assert!(text.matches('`').count() % 2 == 0, "{}", experiment.name);
        }
    }
    let page =
        html(&[Entry { experiment: named("inca-messages").unwrap(), record: None, change: None }]);
    assert!(
        page.contains("<code>fusewire bench inca --parts messages</code>")
            && !page.contains("`fusewire")
    );
}
