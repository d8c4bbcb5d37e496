//! Key file, known hosts, allow list and key log on a real file system.

mod common;

use common::Sides;
use fusewire_session::{AllowList, Error, Identity, KeyLogFile, Known, KnownHosts};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("fusewire-session-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_key_is_made_once_and_kept_private() {
    let folder = Folder::new("identity");
    let path = folder.0.join("state/fusewire/identity.pem");
    let first = Identity::load_or_create(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let second = Identity::load_or_create(&path).unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint());
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no temporary file is left"
    );
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI"),
        "PKCS #8 of Ed25519"
    );
    assert!(!format!("{first:?}").contains(&text[30..60]));

    let rotated = Identity::rotate(&path).unwrap();
    assert_ne!(rotated.fingerprint(), first.fingerprint());
    assert_eq!(Identity::load(&path).unwrap().fingerprint(), rotated.fingerprint());
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn many_at_once_get_one_key() {
    let folder = Folder::new("race");
    let path = folder.0.join("identity.pem");
    let prints: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| Identity::load_or_create(&path).unwrap().fingerprint()))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(prints.iter().all(|p| *p == prints[0]));
    assert_eq!(folder.names(), ["identity.pem"]);
}

#[test]
fn a_key_file_that_others_read_is_refused() {
    let folder = Folder::new("mode");
    let path = folder.0.join("identity.pem");
    Identity::load_or_create(&path).unwrap();
    for open in [0o640, 0o604, 0o620, 0o602, 0o644] {
        fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
        let refused = Identity::load_or_create(&path).unwrap_err();
        assert!(matches!(refused, Error::KeyFileMode { mode, .. } if mode == open));
        assert!(refused.to_string().contains("chmod 600"));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    Identity::load(&path).unwrap();
}

#[test]
fn what_is_no_key_is_refused_and_not_replaced() {
    let folder = Folder::new("nokey");
    let path = folder.0.join("identity.pem");
    let empty = "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n";
    for content in ["", "hello", empty] {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Identity::load_or_create(&path), Err(Error::Text { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    assert!(matches!(Identity::load(&folder.0.join("missing")), Err(Error::Os { .. })));
}

#[test]
fn known_hosts_keep_comments_and_refuse_a_changed_key() {
    let folder = Folder::new("known");
    let path = folder.0.join("sub/known_hosts");
    let [a, b] = [(); 2].map(|()| Identity::ephemeral().unwrap().fingerprint());
    assert_eq!(KnownHosts::load(&path).unwrap().check("h:1", a).unwrap(), Known::No);
    KnownHosts::add(&path, "Example.org:7", a).unwrap();
    KnownHosts::add(&path, "[::1]:7", b).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("example.org:7 {a}\n[::1]:7 {b}\n"));
    fs::write(&path, format!("# mine\n\n{text}other:9 {b} with a comment")).unwrap();

    let hosts = KnownHosts::load(&path).unwrap();
    assert_eq!(hosts.check("example.ORG:7", a).unwrap(), Known::Yes);
    assert_eq!(hosts.check("example.org:8", a).unwrap(), Known::No);
    assert_eq!(hosts.entries().count(), 3);
    let changed = hosts.check("example.org:7", b).unwrap_err();
    assert!(matches!(changed, Error::KeyChanged { known, found, .. } if known == a && found == b));
    assert!(changed.to_string().contains("fusewire key forget example.org:7"), "{changed}");
    assert!(matches!(KnownHosts::add(&path, "example.org:7", b), Err(Error::KeyChanged { .. })));

    assert!(KnownHosts::forget(&path, "example.org:7").unwrap());
    assert!(!KnownHosts::forget(&path, "example.org:7").unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, format!("# mine\n\n[::1]:7 {b}\nother:9 {b} with a comment\n"));
    KnownHosts::add(&path, "example.org:7", b).unwrap();
    for bad in ["", "a b:1", "#x:1", "a\n:1", "a\u{1b}[2J:1"] {
        assert!(KnownHosts::add(&path, bad, a).is_err(), "{bad:?}");
    }
    fs::write(&path, format!("fine:1 {a}\nnot fine\u{1b}[2J\n")).unwrap();
    let refused = KnownHosts::load(&path).unwrap_err().to_string();
    assert!(refused.contains("line 2") && !refused.contains('\u{1b}'), "{refused}");
}

#[test]
fn hosts_added_at_once_are_all_kept() {
    let folder = Folder::new("adders");
    let path = folder.0.join("known_hosts");
    let print = Identity::ephemeral().unwrap().fingerprint();
    std::thread::scope(|scope| {
        for i in 0..16 {
            let path = &path;
            scope.spawn(move || KnownHosts::add(path, &format!("host:{i}"), print).unwrap());
        }
    });
    assert_eq!(KnownHosts::load(&path).unwrap().entries().count(), 16);
    assert_eq!(folder.names(), ["known_hosts", "known_hosts.lock"]);
}

#[test]
fn an_allow_list_is_read_with_comments_and_errors_have_lines() {
    let [a, b, c] = [(); 3].map(|()| Identity::ephemeral().unwrap().fingerprint());
    let list = AllowList::parse(&format!("# friends\n\n{a} Ann's laptop\n  {b}\t# Bob\n"), "list")
        .unwrap();
    assert_eq!(list.len(), 2);
    assert!(list.contains(a) && list.contains(b) && !list.contains(c));
    assert_eq!(
        (list.comment(a), list.comment(b), list.comment(c)),
        (Some("Ann's laptop"), Some("Bob"), None)
    );
    let refused = AllowList::parse(&format!("{a}\nfw1:short x"), "list").unwrap_err().to_string();
    assert!(refused.contains("list, line 2"), "{refused}");
    assert!(matches!(AllowList::load(Path::new("/nonexistent/list")), Err(Error::Os { .. })));
}

#[test]
fn both_key_logs_name_the_same_connection_and_keys() {
    let folder = Folder::new("keylog");
    let paths = [folder.0.join("client"), folder.0.join("server")];
    let mut sides = Sides::new();
    sides.client.settings.key_log = Some(Arc::new(KeyLogFile::open(&paths[0]).unwrap()));
    sides.server.settings.key_log = Some(Arc::new(KeyLogFile::open(&paths[1]).unwrap()));
    sides.established();
    sides.established();
    let [client, server] = paths.clone().map(|p| {
        let text = fs::read_to_string(p).unwrap();
        let mut lines: Vec<_> = text.lines().map(String::from).collect();
        lines.sort();
        lines
    });
    assert_eq!(client, server);
    assert_eq!(mode(&paths[0]), 0o600);
    let ours: Vec<_> = client.iter().filter(|l| l.starts_with("FUSEWIRE_")).collect();
    assert_eq!(ours.len(), 4);
    for line in &ours {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!((words.len(), words[1].len(), words[2].len()), (3, 64, 64));
        let random = words[1];
        assert_eq!(
            client.iter().filter(|l| l.contains(random)).count(),
            7,
            "five of TLS, two of ours"
        );
    }
}

/// Who owns a file of keys can put his own in. Only root can give a file away, so an ordinary user sees half of it.
#[test]
fn what_somebody_else_owns_is_not_believed() {
    let folder = Folder::new("owner");
    let path = |name: &str| folder.0.join(name);
    let key = Identity::load_or_create(&path("key")).unwrap().fingerprint();
    fs::write(path("allow"), format!("{key} me\n")).unwrap();
    fs::write(path("hosts"), format!("example.org:9293 {key}\n")).unwrap();
    fs::write(path("log"), "").unwrap();
    let all = || -> [Result<(), Error>; 4] {
        [
            Identity::load(&path("key")).map(drop),
            AllowList::load(&path("allow")).map(drop),
            KnownHosts::load(&path("hosts")).map(drop),
            KeyLogFile::open(&path("log")).map(drop),
        ]
    };
    all().into_iter().for_each(|read| read.unwrap());
    for name in ["key", "allow", "hosts", "log"] {
        if let Err(error) = std::os::unix::fs::chown(path(name), Some(4711), None) {
            eprintln!("not tested, {name} cannot be given away: {error}");
            return;
        }
    }
    for (read, name) in all().into_iter().zip(["key", "allow", "hosts", "log"]) {
        let error = read.unwrap_err();
        assert!(matches!(error, Error::Owner { owner: 4711, .. }), "{name}: {error}");
        let told = error.to_string();
        assert!(told.contains(name) && told.contains("4711"), "{told}");
    }
}

#[test]
fn a_key_log_is_led_nowhere() {
    let folder = Folder::new("led");
    let (log, elsewhere) = (folder.0.join("log"), folder.0.join("elsewhere"));
    for there in [true, false] {
        if there {
            fs::write(&elsewhere, "text").unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
        assert!(matches!(KeyLogFile::open(&log), Err(Error::Os { .. })));
        assert_eq!(elsewhere.exists(), there);
        fs::remove_file(&log).unwrap();
        let _ = fs::remove_file(&elsewhere);
    }
    // A pipe would wait for a reader, and keep nothing.
    assert!(std::process::Command::new("mkfifo").arg(&log).status().unwrap().success());
    assert!(matches!(KeyLogFile::open(&log), Err(Error::Os { .. })));
}

#[test]
fn zones_keep_their_case_in_known_hosts() {
    let folder = Folder::new("zones");
    let path = folder.0.join("known_hosts");
    let print = Identity::ephemeral().unwrap().fingerprint();
    KnownHosts::add(&path, "[FE80::1%clA0]:9293", print).unwrap();
    let hosts = KnownHosts::load(&path).unwrap();
    assert_eq!(hosts.entries().next().unwrap().0, "[fe80::1%clA0]:9293");
    assert_eq!(hosts.fingerprint("[fe80::1%clA0]:9293"), Some(print));
    assert_eq!(hosts.fingerprint("[fe80::1%cla0]:9293"), None, "another interface");
}
