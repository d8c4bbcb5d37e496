//! `examples/http.rs`, a web server of axum, asked by curl in a network namespace.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fusewire_testkit::namespace::{Need, in_namespace, sh};

/// Ends the server with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the test then has told.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Beside the test program, where cargo puts examples.
fn server() -> Option<Server> {
    let program = std::env::current_exe().ok()?;
    let program = program.parent()?.parent()?.join("examples/http");
    let child = Command::new(program)
        .args(["fwhttp", "10.79.0.2/24", "80"])
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    Some(Server(child))
}

#[test]
fn curl_gets_and_posts() {
    in_namespace("curl_gets_and_posts", Need::Tap, "", || {
        if Command::new("curl").arg("--version").output().is_err() {
            return eprintln!("skipped: curl is not installed");
        }
        let Some(mut server) = server() else {
            return eprintln!(
                "skipped: the example is not built (cargo test builds it with --features tokio)"
            );
        };
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "http://10.79.0.2:80/");
        sh("ip addr add 10.79.0.1/24 dev fwhttp");
        let curl = "curl -sS --max-time 20";
        assert_eq!(sh(&format!("{curl} http://10.79.0.2/")), "Fusewire carried this.\n");
        let sum = sh(&format!("{curl} http://10.79.0.2/bytes/20000000 | cksum"));
        let expected: Vec<u8> = (0..20_000_000usize).map(|i| (i ^ (i >> 8)) as u8).collect();
        let file = std::env::temp_dir().join(format!("fusewire-http-{}", std::process::id()));
        std::fs::write(&file, &expected).unwrap();
        let path = file.display();
        let echo = sh(&format!(
            "{curl} --data-binary @{path} http://10.79.0.2/echo -o {path}.2 -w '%{{http_code}}' || true"
        ));
        let small = sh(&format!(
            "head -c 1000000 {path} > {path}.1; {curl} --data-binary @{path}.1 http://10.79.0.2/echo | cmp - {path}.1 && echo same"
        ));
        let right = sh(&format!("cksum < {path}; rm -f {path} {path}.1 {path}.2"));
        assert_eq!(sum, right);
        assert_eq!(echo, "413", "axum takes no body of 20 MB unasked");
        assert_eq!(small.trim(), "same");
        // Several requests on one connection, several connections at once.
        let many = sh(&format!(
            "for i in 1 2 3 4; do {curl} 'http://10.79.0.2/bytes/[1-20]' -o /dev/null & done; wait; echo done"
        ));
        assert_eq!(many.trim(), "done");
    });
}
