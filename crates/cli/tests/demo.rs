//! The demo and the benches run and print what they promise.

mod support;

use support::World;

#[test]
fn the_demo_verifies_and_prints_the_lines_of_the_bench() {
    let world = World::new();
    let done = world.run("alice", &["demo", "--bytes", "3000001", "--rounds", "1", "--json"]).ok();
    let lines = done.lines();
    let methods: Vec<_> = lines.iter().filter_map(|l| l["method"].as_str()).collect();
    assert_eq!(methods, ["integrated", "sequential", "kernel_tcp"].repeat(2));
    let ends = [("memory", "null"), ("file", "file")].map(|ends| [ends; 3]).concat();
    for (line, (source, sink)) in lines.iter().zip(ends) {
        assert!(line["bytes_per_s"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!((&line["source"], &line["sink"]), (&source.into(), &sink.into()));
        // Of files it says what they cost.
        let parts = ["hash_cpu_s_per_gib", "file_cpu_s_per_gib"].map(|part| line[part].as_f64());
        let all = line["cpu_s_per_gib"].as_f64().unwrap();
        match parts {
            [Some(hash), Some(file)] => {
                assert!(hash > 0.0 && file > 0.0 && hash + file < all, "{line}")
            }
            parts => assert_eq!((parts, sink), ([None, None], "null"), "{line}"),
        }
    }
    assert!(lines[0]["send_ns_per_packet"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[6]["verified"], true);
    for ends in ["memory", "file"] {
        assert!(lines[6]["integrated_to_sequential"][ends].as_f64().unwrap() > 0.0, "{}", lines[6]);
    }
    let done = world.run("alice", &["demo", "--bytes", "3000001", "--rounds", "1"]).ok();
    for part in ["memory to memory", "file to file", "integrated", "BLAKE3", "all the same"] {
        assert!(done.out.contains(part), "{part}: {done:?}");
    }
}

#[test]
fn kernels_are_measured() {
    let world = World::new();
    let args = [
        "bench",
        "kernels",
        "--sizes",
        "256,1024",
        "--smoke",
        "--json",
        "--pipelines",
        "pes,aes-256",
    ];
    let done = world.run("alice", &args).ok();
    assert!(done.err.contains("1024 bytes"), "progress: {}", done.err);
    let (pipelines, others): (Vec<_>, Vec<_>) =
        done.lines().into_iter().partition(|line| line.get("pipeline").is_some());
    assert_eq!(pipelines.len(), 8, "two pipelines, two sizes, two directions");
    let mut fields =
        ["pipeline", "direction", "size_bytes", "level", "integrated", "blocked"].to_vec();
    fields.extend(["sequential", "function_pointers", "reference"]);
    fields.sort_unstable();
    for line in pipelines {
        let mut found: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, fields);
        for key in ["integrated", "blocked", "sequential"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key}: {line}");
        }
        let library = line["pipeline"].as_str().unwrap().contains("gcm");
        assert_eq!(line["reference"].as_f64().is_some(), library, "{line}");
    }
    let of = |form: &str| others.iter().filter(|line| line["form"] == form).count();
    assert_eq!(of("word_filters"), 4, "word filters of one of them");
    let checks = [of("internet"), of("cxor"), of("none")];
    assert_eq!(
        checks,
        [6, 6, 4],
        "its loop with either sum, and records' both ways with none, too"
    );
    assert_eq!(others.len(), 20);
    let level = ["bench", "kernels", "--sizes", "64", "--smoke", "--json", "--pipelines", "cxor"];
    let lines = world.run("alice", &[&level[..], &["--level", "portable"]].concat()).ok().lines();
    let forms: Vec<_> = lines.iter().map(|line| line["form"].as_str().unwrap()).collect();
    assert_eq!(forms, ["load_only", "standard", "op1", "op2", "op3", "op4", "vector"]);
    assert!(lines.iter().all(|line| line["level"] == "portable"));
    let args = ["bench", "kernels", "--level", "mmx"];
    assert!(world.run("alice", &args).err.contains("portable"));
}

#[test]
fn message_parts_are_measured() {
    let world = World::new();
    let args = ["bench", "parts", "--sizes", "100,1024", "--smoke", "--json"];
    let lines = world.run("alice", &args).ok().lines();
    assert_eq!(lines.len(), 2);
    for line in lines {
        for key in ["parts", "length_first", "parts_pieces", "length_first_pieces", "open"] {
            assert!(line[key].as_f64().unwrap() > 0.0, "{key}: {line}");
        }
    }
    let over = ["--transport", "tcp,xtp", "--check", "internet,cxor"];
    let lines = world.run("alice", &[&args[..], &over[..]].concat()).ok().lines();
    let names: Vec<_> = lines.iter().map(|line| line["transport"].as_str()).collect();
    let each = [None, Some("tcp"), Some("xtp"), Some("xtp cxor")];
    assert_eq!(names, [each, each].concat());
    let refused = world.run("alice", &["bench", "parts", "--cipher", "aes-256-gcm", "--smoke"]);
    assert_ne!(refused.code, 0);
    let tcp_alone = ["--transport", "tcp", "--check", "cxor"];
    let refused = world.run("alice", &[&args[..], &tcp_alone[..]].concat());
    assert!(refused.code != 0 && refused.err.contains("tcp has the internet check alone"));
    let args = ["ls", "--transport", "tcp", "--check", "cxor", "fusewire://127.0.0.1/"];
    let refused = world.run("alice", &args);
    assert!(refused.code == 2 && refused.err.contains("--transport xtp"), "{}", refused.err);
}

/// A row for each transport and way of sending again, whose packets are all that went: what was still to be sent when the last was
/// queued, too.
#[test]
fn transfers_over_both_transports_are_measured_to_their_end() {
    let world = World::new();
    let of = "--transport tcp,xtp --retransmission selective,go-back-n --methods integrated";
    let size = "--rounds 1 --bytes 300000 --adu-bytes 1388 --datagram-bytes 1452";
    let words = ["bench", "transfer", "--json"].into_iter();
    let args: Vec<_> = words.chain(of.split(' ')).chain(size.split(' ')).collect();
    let lines = world.run("alice", &args).ok().lines();
    let names: Vec<_> = lines.iter().map(|line| line["transport"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcp", "xtp", "xtp go-back-n"]);
    for line in lines {
        let packets = line["packets_per_gib"].as_f64().unwrap();
        assert!(packets >= f64::from(1 << 30) / 1388.0, "{line}");
    }
}
