//! Files go over the network, whole and unchanged, by the program itself.

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use support::{Done, World, bytes, over, served_over};

#[test]
fn a_file_is_got() {
    let world = World::new();
    let content = bytes(5_000_000, 1);
    fs::write(world.served("a b"), &content).unwrap();
    let server = world.serve(&[]);
    let done = world.run("alice", &["get", &server.url("a%20b"), "-o", "copy"]).ok();
    assert!(done.out.is_empty() && done.err.starts_with("got 1 file, 5.0 MB"), "{done:?}");
    assert!(fs::read(world.here("copy")).unwrap() == content);
    assert_eq!(server.stop().ok().out, "");
}

#[test]
fn every_socket_of_the_kernels_carries_it() {
    let content = bytes(20_000_000, 2);
    for socket in fusewire_device::sockets::ALL {
        if let Err(e) = socket.bind(([127, 0, 0, 1], 0).into(), &Default::default()) {
            eprintln!("not tested: {}: {e}", socket.name);
            continue;
        }
        let world = World::new();
        fs::write(world.served("a"), &content).unwrap();
        let server = world.serve(&["--device", socket.name, "--writable"]);
        let device = ["--device", socket.name, "-v"];
        let (a, b) = (server.url("a"), server.url("b"));
        let get = [&["get", &a, "-o", "copy"][..], &device].concat();
        let done = world.run("alice", &get).ok();
        assert!(done.err.contains(&format!("over {}", socket.name)), "{done:?}");
        assert!(fs::read(world.here("copy")).unwrap() == content, "{}", socket.name);
        let put = [&["put", "copy", &b][..], &device].concat();
        world.run("alice", &put).ok();
        assert!(fs::read(world.served("b")).unwrap() == content, "{}", socket.name);
    }
}

#[test]
fn a_folder_is_got_over_several_connections() {
    ["udp", "xtp"].into_iter().for_each(a_folder_is_got_over);
}

fn a_folder_is_got_over(way: &str) {
    let world = World::new();
    fs::create_dir_all(world.served("sub/deep")).unwrap();
    for n in 0..40 {
        fs::write(world.served(&format!("sub/deep/{n}.dat")), bytes(n * 1000, n as u64)).unwrap();
    }
    fs::write(world.served("sub/big"), bytes(70 << 20, 7)).unwrap();
    fs::write(world.served("sub/not.txt"), "left out").unwrap();
    symlink("deep/3.dat", world.served("sub/link")).unwrap();
    let server = world.serve(&served_over(way));
    let url = server.url("sub");
    let args = ["get", &url, "-j", "3", "--exclude", "*.txt", "--json"];
    let summary = world.run("alice", &[&args[..], &over(way)].concat()).ok().summary();
    assert_eq!((&summary["files_done"], &summary["failed"]), (&41.into(), &0.into()), "{summary}");
    for name in ["deep/39.dat", "deep/0.dat", "big", "link"] {
        let (a, b) =
            (fs::read(world.served("sub").join(name)), fs::read(world.here("sub").join(name)));
        assert!(a.unwrap() == b.unwrap(), "{name}");
    }
    assert!(!world.here("sub/not.txt").exists());
}

#[test]
fn elements_ciphers_and_executions_change_no_byte() {
    let world = World::new();
    let content = bytes(1_234_567, 3);
    fs::write(world.served("a"), &content).unwrap();
    let server = world.serve(&["--allow-insecure"]);
    for args in [
        &["--element", "int32"][..],
        &["--element", "int64", "--execution", "sequential"],
        &["--cipher", "chacha20-poly1305", "--execution", "blocked"],
        &["--cipher", "aes-128-gcm", "--datagram-bytes", "1452"],
        &["--cipher", "pes", "--element", "int16"],
        &["--copies", "3", "--reply-bytes", "700", "--congestion", "reno"],
        &["--device", "kernel-tcp", "--cpu-level", "portable"],
    ] {
        let mut all = vec!["get"];
        let url = server.url("a");
        all.extend([url.as_str(), "-o", "copy"]);
        all.extend(args);
        world.run("alice", &all).ok();
        assert!(fs::read(world.here("copy")).unwrap() == content, "{args:?}");
        fs::remove_file(world.here("copy")).unwrap();
    }
}

#[test]
fn put_needs_leave() {
    let world = World::new();
    fs::create_dir(world.here("folder")).unwrap();
    let content = bytes(3_000_000, 5);
    fs::write(world.here("folder/a"), &content).unwrap();
    let server = world.serve(&[]);
    world
        .run("alice", &["put", "folder", &server.url("")])
        .failed(1, "the server does not allow writing");
    assert_eq!(fs::read_dir(world.path("served")).unwrap().count(), 0);
    let speaks_xtp = world.serve(&["--writable", "--transport", "xtp"]);
    let server = world.serve(&["--writable"]);
    for (way, server) in [("xtp", &speaks_xtp), ("udp", &server), ("kernel-tcp", &server)] {
        let put = ["put", "folder", &server.url("")];
        world.run("alice", &[&put[..], &over(way)].concat()).ok();
        assert!(fs::read(world.served("folder/a")).unwrap() == content);
        fs::remove_dir_all(world.served("folder")).unwrap();
    }
    let args = ["put", "folder/a", "folder", &server.url("into"), "--json"];
    let done = world.run("alice", &args).ok();
    assert_eq!(done.lines().iter().filter(|l| l["event"] == "done").count(), 2, "{done:?}");
    assert!(world.served("into/a").exists() && world.served("into/folder/a").exists());
    let args = ["put", "folder/a", &server.url("into/folder")];
    world.run("alice", &args).failed(1, "with a slash at its end");
    let args = ["put", "folder/a", &server.url("into/a"), "--no-clobber"];
    let done = world.run("alice", &args).ok();
    assert!(done.err.ends_with("; 1 left as they are\n"), "{done:?}");
}

#[test]
fn several_things_are_put_with_one_summary() {
    let world = World::new();
    let mut args: Vec<String> = vec!["put".into()];
    for n in 0..100 {
        fs::write(world.here(&format!("f{n}")), bytes(n, n as u64)).unwrap();
        args.push(format!("f{n}"));
    }
    fs::create_dir(world.here("other")).unwrap();
    fs::write(world.here("other/f1"), "another").unwrap();
    let server = world.serve(&["--writable"]);
    args.extend(["nowhere".into(), "other/f1".into(), server.url("x/")]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = world.run("alice", &args).failed(1, "nowhere");
    assert!(done.err.contains("cannot put other/f1: another one has the same name"), "{done:?}");
    let summaries: Vec<_> = done.err.lines().filter(|line| line.starts_with("put ")).collect();
    assert_eq!(summaries.len(), 1, "{done:?}");
    assert!(summaries[0].starts_with("put 100 files, ") && summaries[0].ends_with("; 2 failed"));
    for n in 0..100 {
        assert!(fs::read(world.served(&format!("x/f{n}"))).unwrap() == bytes(n, n as u64), "{n}");
    }
}

#[test]
fn standard_output_and_input_are_files_too() {
    let world = World::new();
    let content = "line\n".repeat(1_000_000);
    fs::write(world.served("a"), &content).unwrap();
    let server = world.serve(&["--writable"]);
    let url = server.url("a");
    let done = world.run("alice", &["get", &url, "-o", "-"]).ok();
    assert!(done.out == content && !world.here("-").exists());
    // As /dev/stdout is one: a link to a link.
    symlink("/proc/self/fd/1", world.here("out")).unwrap();
    let done = world.run("alice", &["get", &url, "-o", "out"]).ok();
    assert!(done.out == content);
    let mut command = world.command("alice", &["get", &url, "-o", "out"]);
    command.stdout(fs::File::create(world.path("into")).unwrap());
    assert!(command.status().unwrap().success());
    assert!(fs::read_to_string(world.path("into")).unwrap() == content);
    assert!(fs::symlink_metadata(world.here("out")).unwrap().is_symlink());
    // Whoever reads has enough.
    let mut child = world.command("alice", &["get", &url, "-o", "-"]).spawn().unwrap();
    drop(child.stdout.take());
    let done = Done::of(child).ok();
    assert_eq!(done.err, "", "nothing to say");
    world.run("alice", &["get", &server.url(""), "-o", "-"]).failed(1, "not a regular file");
    world.run("alice", &["get", &url, "-o", "-", "--json"]).failed(2, "standard output");
    let mut command = world.command("alice", &["put", "-", &server.url("b")]);
    command.stdin(fs::File::open(world.path("into")).unwrap());
    Done::of(command.spawn().unwrap()).ok();
    assert!(fs::read_to_string(world.served("b")).unwrap() == content);
    world.run("alice", &["put", "-", &server.url("")]).failed(2, "has no name");
    world.run("alice", &["put", "-", "out", &server.url("c/")]).failed(2, "put alone");
}

#[test]
fn a_link_is_replaced_by_force_alone() {
    let world = World::new();
    fs::write(world.served("a"), "new").unwrap();
    fs::write(world.here("mine"), "old").unwrap();
    symlink("mine", world.here("link")).unwrap();
    let server = world.serve(&[]);
    let url = server.url("a");
    world.run("alice", &["get", &url, "-o", "link"]).failed(1, "--force");
    assert!(fs::symlink_metadata(world.here("link")).unwrap().is_symlink());
    world.run("alice", &["get", &url, "-o", "link", "--force"]).ok();
    assert!(fs::symlink_metadata(world.here("link")).unwrap().is_file());
    assert_eq!(fs::read_to_string(world.here("mine")).unwrap(), "old");
}

#[test]
fn what_is_unchanged_is_counted_and_not_listed() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    for n in 0..200 {
        fs::write(world.served(&format!("sub/{n}")), "x").unwrap();
    }
    let server = world.serve(&[]);
    let url = server.url("sub");
    let args = ["get", &url, "-o", "new", "--update"];
    let done = world.run("alice", &args).ok();
    assert!(done.err.starts_with("got 200 files"), "{done:?}");
    let done = world.run("alice", &args).ok();
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(done.err.ends_with("; 200 left as they are\n"), "{done:?}");
    let done = world.run("alice", &[&args[..], &["-v"]].concat()).ok();
    assert!(done.err.lines().count() > 200, "{done:?}");
    let summary = world.run("alice", &[&args[..], &["--json"]].concat()).ok().summary();
    assert_eq!((&summary["unchanged"], &summary["files_done"]), (&200.into(), &0.into()));
}

#[test]
fn names_come_back_out_of_json() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let odd = "a \"quoted\\name\n\u{1b}[31mé";
    fs::create_dir(world.served("sub")).unwrap();
    fs::write(world.served("sub").join(odd), "12345").unwrap();
    fs::write(world.served("sub").join(std::ffi::OsStr::from_bytes(b"\xff")), "1").unwrap();
    let server = world.serve(&[]);
    for command in ["ls", "get"] {
        let done = world.run("alice", &[command, &server.url("sub"), "--json"]).ok();
        assert!(!done.out.contains('\u{1b}'), "{done:?}");
        let lines = done.lines();
        assert!(lines.iter().any(|line| line["path"] == odd), "{done:?}");
        assert!(lines.iter().any(|line| line["path_hex"] == "ff"), "{done:?}");
    }
}

#[test]
fn a_server_logs_who_reads_and_stores_what() {
    let world = World::new();
    fs::write(world.served("a\x1b"), "12345").unwrap();
    fs::write(world.here("b"), "1").unwrap();
    let server = world.serve(&["--writable", "--log-level", "warn,access=info"]);
    for device in ["udp", "kernel-tcp", "shm"] {
        world.run("alice", &["get", &server.url(""), "-o", "c/", "--device", device]).ok();
        world.run("alice", &["put", "b", &server.url("b"), "--device", device]).ok();
    }
    let log = server.stop().ok().err;
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert_eq!(
        ["listed", "read", "stored"].map(|word| count(&format!(" access: {word}"))),
        [3, 5, 3],
        "{log}"
    );
    assert_eq!(count("peer=127.0.0.1:"), 11, "{log}");
    assert!(log.contains("path=a\\x1b bytes=5") && !log.contains("connected"), "{log}");
}

#[test]
fn a_server_warns_of_failed_uploads_and_refused_clients() {
    let world = World::new();
    fs::write(world.here("b"), "1").unwrap();
    let server = world.serve(&[]);
    let trust = ["--trust", &server.fingerprint];
    for device in ["udp", "kernel-tcp"] {
        let put = ["put", "b", &server.url("b"), "--device", device];
        world.run("alice", &put).failed(1, "does not allow writing");
        let get = ["get", &server.url("b"), "--device", device];
        world.run("bob", &[&get[..], &trust].concat()).failed(3, "not on the server's list");
    }
    let log = server.stop().ok().err;
    for word in [" access: upload failed", ": refused"] {
        let lines: Vec<_> = log.lines().filter(|line| line.contains(word)).collect();
        let is_whole = |line: &&&str| line.contains("WARN") && line.contains("peer=127.0.0.1:");
        assert_eq!((lines.len(), lines.iter().filter(is_whole).count()), (2, 2), "{log}");
    }
    assert!(log.contains("path=b error=b: the server does not allow writing"), "{log}");
    assert!(log.contains("is not allowed"), "{log}");
}

#[test]
fn what_is_no_value_is_refused() {
    let world = World::new();
    for (args, word) in [
        (&["--log-level", "loud", "ss"][..], "warn"),
        (&["ss", "--state", "bogus"], "estab"),
        (&["serve", ".", "--listen", "9300"], "127.0.0.1:9300"),
        (&["get", "fusewire://me@host/x"], "keys"),
        (
            &[
                "ls",
                "fusewire://10.9.8.7:1/",
                "--device",
                "packet:eth0",
                "--transport",
                "xtp",
                "--carrier",
                "ip",
            ],
            "has none",
        ),
        (&["bench", "transfer", "--check", "cxor"], "xtp's"),
        (&["bench", "transfer", "--retransmission", "go-back-n"], "xtp's"),
        (&["bench", "transfer", "--transport", "xtp", "--check", "cxor"], "without a tag"),
        (&["bench", "parts", "--transport", "tcp", "--check", "cxor"], "xtp's"),
        (&["bench", "connections", "--open", "1", "--transferring", "2"], "no more than are open"),
    ] {
        world.run("alice", args).failed(2, word);
    }
    let folder = world.path("served");
    world.run("alice", &["demo", "--file", folder.to_str().unwrap()]).failed(1, "no regular file");
}

#[test]
fn ls_shows_what_is_there_and_nothing_raw() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    fs::write(world.served("sub/\x1b[31mred\n"), "12345").unwrap();
    let server = world.serve(&[]);
    assert_eq!(world.run("alice", &["ls", &server.url("")]).ok().out, "sub/\n");
    let done = world.run("alice", &["ls", "-lr", &server.url("")]).ok();
    assert!(
        done.out.contains("5  20")
            && done.out.contains("Z  sub/")
            && done.out.contains("sub/\\x1b[31mred\\n\n"),
        "{done:?}"
    );
    let done = world.run("alice", &["ls", "--json", &server.url("sub")]).ok();
    assert_eq!(done.lines()[0]["bytes"], 5);
    let done = world.run("alice", &["get", &server.url("sub"), "--json"]).ok();
    assert!(!done.out.contains('\x1b') && !done.err.contains('\x1b'));
    world.run("alice", &["ls", &server.url("nowhere")]).failed(1, "no such file or folder");
    drop(server);
    let server = world.serve(&["--transport", "xtp"]);
    let done = world.run("alice", &["ls", "--transport", "xtp", &server.url("")]).ok();
    assert_eq!(done.out, "sub/\n");
}

#[test]
fn nothing_is_clobbered_and_that_is_no_failure() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    for name in ["a", "b"] {
        fs::write(world.served("sub").join(name), "new").unwrap();
    }
    fs::create_dir(world.here("sub")).unwrap();
    fs::write(world.here("sub/a"), "old").unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("sub"), "--no-clobber"];
    let done = world.run("alice", &args).ok();
    assert!(done.err.starts_with("got 1 file") && done.err.lines().count() == 1, "{done:?}");
    assert!(done.err.ends_with("; 1 left as they are\n"), "{done:?}");
    assert_eq!(fs::read(world.here("sub/a")).unwrap(), b"old");
    let summary = world.run("alice", &[&args[..], &["--json"]].concat()).ok().summary();
    let of = |key: &str| summary[key].as_u64().unwrap();
    assert_eq!((of("files"), of("skipped"), of("failed")), (0, 2, 0), "{summary}");
}

#[test]
fn an_include_that_matches_nothing_is_an_error_and_makes_no_folder() {
    let world = World::new();
    for place in [world.served("sub"), world.here("mine")] {
        fs::create_dir_all(place.join("a/b")).unwrap();
        fs::create_dir_all(place.join("empty")).unwrap();
        fs::write(place.join("a/b/x.rs"), "x").unwrap();
    }
    let server = world.serve(&["--writable"]);
    let (from, to) = (server.url("sub"), server.url("to"));
    for pattern in ["*.md", "a", "b/*"] {
        let get = ["get", &from, "--include", pattern];
        world.run("alice", &get).failed(1, "nothing matches the patterns to include");
        assert_eq!(fs::read_dir(world.path("here")).unwrap().count(), 1);
        let put = ["put", "mine", &to, "--include", pattern];
        world.run("alice", &put).failed(1, "nothing matches the patterns to include");
        assert!(!world.served("to").exists());
    }
    let names = |dir: &std::path::Path| -> Vec<_> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    world.run("alice", &["get", &from, "--include", "*.rs"]).ok();
    world.run("alice", &["put", "mine", &to, "--include", "*.rs"]).ok();
    for place in [world.here("sub"), world.served("to")] {
        assert_eq!(names(&place), ["a"]);
        assert_eq!(names(&place.join("a/b")), ["x.rs"]);
    }
}

#[test]
fn read_only_folders_are_got_again_by_an_ordinary_user() {
    let world = World::of_ordinary_user();
    fs::create_dir_all(world.served("src/deep")).unwrap();
    fs::write(world.served("src/f"), "1").unwrap();
    fs::write(world.served("src/deep/g"), "1").unwrap();
    let set = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let server = world.serve(&[]);
    let args = ["get", &server.url("src"), "-o", "got"];
    let read_only = || {
        for name in ["deep", ""] {
            set(&world.served("src").join(name), 0o555);
        }
    };
    read_only();
    world.run("alice", &args).ok();
    let is_read_only = |name: &str| {
        fs::metadata(world.here("got").join(name)).unwrap().permissions().mode() & 0o777 == 0o555
    };
    for more in [&[][..], &["--update"], &[]] {
        world.run("alice", &[&args[..], more].concat()).ok();
        assert!(is_read_only("") && is_read_only("deep"), "{more:?}");
    }
    // A link is made in the first run, and is there in the next ones.
    set(&world.served("src"), 0o755);
    symlink("f", world.served("src/l")).unwrap();
    fs::create_dir(world.served("src/new")).unwrap();
    read_only();
    for more in [&[][..], &["--update"], &["--update"], &[]] {
        let done = world.run("alice", &[&args[..], more].concat()).ok();
        assert!(!done.err.contains("failed"), "{done:?}");
        assert!(is_read_only("") && is_read_only("deep"), "{more:?}");
        assert_eq!(fs::read_link(world.here("got/l")).unwrap(), std::path::Path::new("f"));
        assert!(world.here("got/new").is_dir());
    }
    for place in ["src", "src/deep"] {
        set(&world.served(place), 0o755);
        set(&world.here("got"), 0o755);
    }
    set(&world.here("got/deep"), 0o755);
}

/// A list that allows the user 1234 everything, and the group to read.
const ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 210, 4, 0, 0, 4, 0, 4, 0, 255, 255,
    255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

#[test]
fn copies_allow_no_more_than_their_sources() {
    use rustix::fs::{XattrFlags, setxattr};
    let world = World::new();
    let attributes = |place: &std::path::Path| {
        let acl = setxattr(place.join("acl"), "system.posix_acl_access", ACL, XattrFlags::empty());
        acl.and_then(|()| setxattr(place.join("acl"), "user.x", b"1", XattrFlags::empty())).is_ok()
    };
    let mut has_attributes = true;
    for place in [world.served("sub"), world.here("mine")] {
        fs::create_dir_all(place.join("sticky")).unwrap();
        fs::write(place.join("acl"), "x").unwrap();
        fs::write(place.join("sticky/one"), "x").unwrap();
        fs::hard_link(place.join("sticky/one"), place.join("two")).unwrap();
        for path in ["sticky", ""] {
            let mode = fs::Permissions::from_mode(0o1777);
            fs::set_permissions(place.join(path), mode).unwrap();
        }
        has_attributes &= attributes(&place);
    }
    if !has_attributes {
        eprintln!("not tested: the file system has no access control lists");
        return;
    }
    let server = world.serve(&["--writable"]);
    let (from, to) = (server.url("sub"), server.url("to"));
    let line = "not kept: 1 access control list, 1 set of extended attributes, 2 hard links\n";
    for args in [["get", &from, "-o", "copy"].as_slice(), &["put", "mine", &to]] {
        let done = world.run("alice", args).ok();
        assert!(done.err.contains(line), "{done:?}");
        let summary = world.run("alice", &[args, &["--json"]].concat()).ok().summary();
        let lost = ["acls", "attributes", "owners", "hard_links"].map(|key| &summary["lost"][key]);
        assert_eq!(lost, [1, 1, 0, 2], "{summary}");
    }
    for copy in [world.here("copy"), world.served("to")] {
        let mode =
            |path: &str| fs::metadata(copy.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(
            ["", "sticky", "acl"].map(mode).map(|m| format!("{m:o}")),
            ["1777", "1777", "640"]
        );
    }
    // A file that the command names itself.
    world.run("alice", &["get", &server.url("sub/acl"), "-o", "one"]).ok();
    world.run("alice", &["put", "mine/acl", &server.url("one")]).ok();
    for copy in [world.here("one"), world.served("one")] {
        assert_eq!(fs::metadata(copy).unwrap().permissions().mode() & 0o7777, 0o640);
    }
    if fusewire_testkit::namespace::is_root() {
        std::os::unix::fs::chown(world.served("sub/two"), Some(1234), None).unwrap();
        let done = world.run("alice", &["get", &from, "-o", "owned"]).ok();
        assert!(done.err.contains(", 2 owners, 2 hard links"), "{done:?}");
    }
}

#[test]
fn a_client_logs_what_it_does() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&["--writable"]);
    let done = world.run("alice", &["get", &server.url("a"), "--log-level", "debug"]).ok();
    for word in ["connecting", "connected", "path=a"] {
        assert!(done.err.contains(word), "{word}: {done:?}");
    }
    let done = world.run("alice", &["put", "a", &server.url("b"), "--log-level", "debug"]).ok();
    assert!(done.err.contains("path=a"), "{done:?}");
    let done = world.run("alice", &["ls", &server.url(""), "--log-level", "debug"]).ok();
    assert!(done.err.contains("connected"), "{done:?}");
}

#[test]
fn ls_reports_folders_that_it_cannot_list() {
    let world = World::of_ordinary_user();
    fs::create_dir_all(world.served(&["d"; 140].join("/"))).unwrap();
    for (name, mode) in [("private", 0o300), ("unsearched", 0o604)] {
        fs::create_dir(world.served(name)).unwrap();
        fs::write(world.served(name).join("a"), "").unwrap();
        fs::set_permissions(world.served(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let server = world.serve(&[]);
    let url = server.url("");
    let done = world.run("alice", &["ls", "-r", &url]).failed(1, "3 folders not listed");
    assert!(done.err.contains("cannot list private: permission denied"), "{done:?}");
    assert!(done.err.contains("cannot list unsearched: permission denied"), "{done:?}");
    assert!(done.err.contains("deeper than 128 folders"), "{done:?}");
    let done = world.run("alice", &["ls", "-r", "--json", &url]).failed(1, "not listed");
    assert_eq!(done.lines().iter().filter(|line| line["unread"] == true).count(), 3, "{done:?}");
    world.run("alice", &["ls", &url]).ok();
    for name in ["private", "unsearched"] {
        fs::set_permissions(world.served(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn what_is_missing_is_an_error_of_its_own() {
    let world = World::new();
    let server = world.serve(&[]);
    let done =
        world.run("alice", &["get", &server.url("nowhere")]).failed(1, "nowhere: no such file");
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    let done =
        world.run("alice", &["get", &server.url("nowhere"), "--json"]).failed(1, "no such file");
    assert_eq!(done.summary()["failed"], 1);
    let done = world
        .run("alice", &["get", "fusewire://127.0.0.1:1/x", "--json"])
        .failed(4, "cannot connect to 127.0.0.1:1");
    assert!(done.summary()["error"].as_str().unwrap().contains("cannot connect"), "{done:?}");
    world.run("alice", &["get", &server.url("../x")]).failed(2, "..");
    world.run("alice", &["get", "http://localhost/"]).failed(2, "fusewire://");
    world.run("alice", &["serve", "/nowhere/at/all"]).failed(1, "/nowhere/at/all");
}
