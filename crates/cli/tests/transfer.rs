//! Files go over the network, whole and unchanged, by the program itself.

mod support;

use std::fs;
use std::os::unix::fs::symlink;

use support::{World, bytes};

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
fn a_folder_is_got_over_several_connections() {
    let world = World::new();
    fs::create_dir_all(world.served("sub/deep")).unwrap();
    for n in 0..40 {
        fs::write(world.served(&format!("sub/deep/{n}.dat")), bytes(n * 1000, n as u64)).unwrap();
    }
    fs::write(world.served("sub/big"), bytes(70 << 20, 7)).unwrap();
    fs::write(world.served("sub/not.txt"), "left out").unwrap();
    symlink("deep/3.dat", world.served("sub/link")).unwrap();
    let server = world.serve(&[]);
    let args = ["get", &server.url("sub"), "-j", "3", "--exclude", "*.txt", "--json"];
    let summary = world.run("alice", &args).ok().summary();
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
        &["--copies", "3", "--reply-bytes", "700"],
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
    let server = world.serve(&["--writable"]);
    for device in ["udp", "kernel-tcp"] {
        world.run("alice", &["put", "folder", &server.url(""), "--device", device]).ok();
        assert!(fs::read(world.served("folder/a")).unwrap() == content);
        fs::remove_dir_all(world.served("folder")).unwrap();
    }
    let args = ["put", "folder/a", "folder", &server.url("into"), "--json"];
    let done = world.run("alice", &args).ok();
    assert_eq!(done.lines().iter().filter(|l| l["event"] == "done").count(), 2, "{done:?}");
    assert!(world.served("into/a").exists() && world.served("into/folder/a").exists());
    let args = ["put", "folder/a", &server.url("into/a"), "--no-clobber"];
    world.run("alice", &args).failed(1, "a: ");
}

#[test]
fn ls_shows_what_is_there_and_nothing_raw() {
    let world = World::new();
    fs::create_dir(world.served("sub")).unwrap();
    fs::write(world.served("sub/\x1b[31mred\n"), "12345").unwrap();
    let server = world.serve(&[]);
    assert_eq!(world.run("alice", &["ls", &server.url("")]).ok().out, "sub/\n");
    let done = world.run("alice", &["ls", "-lr", &server.url("")]).ok();
    assert!(done.out.contains("5  20") && done.out.contains("sub/\\x1b[31mred\\n\n"), "{done:?}");
    let done = world.run("alice", &["ls", "--json", &server.url("sub")]).ok();
    assert_eq!(done.lines()[0]["bytes"], 5);
    let done = world.run("alice", &["get", &server.url("sub"), "--json"]).ok();
    assert!(!done.out.contains('\x1b') && !done.err.contains('\x1b'));
    world.run("alice", &["ls", &server.url("nowhere")]).failed(1, "no such file or folder");
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
    world.run("alice", &["get", &server.url("../x")]).failed(2, "..");
    world.run("alice", &["get", "http://localhost/"]).failed(2, "fusewire://");
    world.run("alice", &["serve", "/nowhere/at/all"]).failed(1, "/nowhere/at/all");
}
