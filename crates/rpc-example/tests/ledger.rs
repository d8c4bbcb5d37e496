//! The two programs, as a user runs them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn payments_over_tcp_udp_and_xtp() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let program = env!("CARGO_BIN_EXE_ledger-server");
    let mut child =
        Command::new(program).arg("127.0.0.1:0").arg(&key).stdout(Stdio::piped()).spawn().unwrap();
    let (mut addr, mut xtp) = (String::new(), String::new());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut addr).unwrap();
    lines.read_line(&mut xtp).unwrap();
    let _server = Server(child);
    let ask = |addr: &str, words: &str, key: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledger-client"));
        let command = command.arg(addr).env("LEDGER_KEY", key);
        command.args(words.split(' ')).output().unwrap()
    };
    let run = |addr: &str, words: &str| {
        let output = ask(addr, words, &key);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (tcp, udp, xtp) = (addr.trim(), format!("udp:{}", addr.trim()), xtp.trim());
    assert_eq!(run(tcp, "pay bank ada 1200"), "payment 1\n");
    assert_eq!(run(&udp, "pay ada bob 500"), "payment 2\n");
    assert_eq!(run(&udp, "pay ada bob 701"), "refused: NotEnough\n");
    assert_eq!(run(tcp, "pay eve bob 1"), "refused: NoSuchAccount\n");
    assert_eq!(run(tcp, "balance ada"), "700\n");
    assert_eq!(run(&udp, "balance bank"), "-1200\n");
    assert_eq!(run(xtp, "pay bank eve 7"), "payment 3\n");
    assert_eq!(run(xtp, "pay eve bob 8"), "refused: NotEnough\n");
    assert_eq!(run(tcp, "balance eve"), "7\n");
    assert_eq!(run(xtp, "history ada"), "bank ada 1200\nada bob 500\n");
    // Whose server has another key than it should is told so in words.
    let refused = ask(xtp, "balance ada", &folder.path().join("another"));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("the server's key is fw1:"), "{why}");
}
