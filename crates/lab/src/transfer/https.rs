//! nginx and curl, as their authors would set them up for one large file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::worker::Report;
use crate::cpu::cpu_seconds;
use crate::process::{comes_to_listen, free_address};
use crate::{Error, Result};

/// True if all three programs are there.
pub fn available() -> bool {
    ["nginx", "curl", "openssl"].iter().all(|p| find(p).is_some())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(extra).map(|d| d.join(program)).find(|p| p.is_file())
}

/// A running nginx that serves one folder over TLS 1.3.
pub struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM, so that the worker ends too.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts nginx for the files below `root`, with its own files in `dir`.
    pub fn start(root: &Path, dir: &Path) -> Result<Server> {
        let failed =
            |message: String| Error::Worker { method: "https".into(), role: "send", message };
        let key = dir.join("https.key");
        let certificate = dir.join("https.pem");
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .stderr(Stdio::null())
            .status();
        if !made.is_ok_and(|s| s.success()) {
            return Err(failed("openssl made no certificate".into()));
        }
        let address = free_address()?;
        let port = address.port();
        let config = dir.join("nginx.conf");
        fs::write(&config, configuration(root, dir, port))
            .map_err(Error::os("writing nginx.conf"))?;
        let nginx = find("nginx").ok_or_else(|| failed("nginx is not installed".into()))?;
        let child = Command::new(nginx)
            .arg("-c")
            .arg(&config)
            .arg("-e")
            .arg(dir.join("nginx.err"))
            .stdin(Stdio::null())
            .spawn()
            .map_err(Error::os("starting nginx"))?;
        let mut server = Server { child, port, dir: dir.into() };
        match comes_to_listen(&mut server.child, address) {
            true => Ok(server),
            false => Err(failed("nginx does not listen".into())),
        }
    }

    /// User and system seconds of nginx's worker so far.
    fn cpu_seconds(&self) -> f64 {
        let pid = self.child.id();
        let children =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| Some(cpu_seconds(pid.parse().ok()?))).sum()
    }

    /// curl fetches `name` to `sink`; both sides' reports.
    pub fn fetch(&self, name: &str, sink: &Path) -> Result<(Report, Report)> {
        let before = self.cpu_seconds();
        // curl's own figures leave the handshake out; its CPU time is taken from its end.
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--tlsv1.3", "--http1.1"])
            .args(["--tls13-ciphers", "TLS_AES_256_GCM_SHA384", "--write-out"])
            .arg("%{size_download} %{time_total} %{time_pretransfer}")
            .args(["--resolve", &format!("localhost:{}:127.0.0.1", self.port)])
            .arg("--cacert")
            .arg(self.dir.join("https.pem"))
            .arg("--output")
            .arg(sink)
            .arg(format!("https://localhost:{}/{name}", self.port))
            .output();
        let output = output.map_err(Error::os("running curl"))?;
        let failed =
            |message: String| Error::Worker { method: "https".into(), role: "receive", message };
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figures: Vec<f64> = text.split_whitespace().filter_map(|f| f.parse().ok()).collect();
        let [bytes, total, before_transfer] = figures[..] else { return Err(failed(text)) };
        let seconds = total - before_transfer;
        let receive = Report { bytes: bytes as u64, seconds, ..Report::default() };
        let send = Report { cpu_s: self.cpu_seconds() - before, ..receive.clone() };
        Ok((send, receive))
    }
}

fn configuration(root: &Path, dir: &Path, port: u16) -> String {
    let (root, dir) = (root.display(), dir.display());
    let mut text = String::new();
    let _ = write!(
        text,
        "daemon off; worker_processes 1; pid {dir}/nginx.pid; user root;\n\
         events {{ }}\n\
         http {{\n\
           access_log off; sendfile on; tcp_nopush on; ssl_buffer_size 16k; output_buffers 2 512k;\n\
           client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
           uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
           server {{ listen 127.0.0.1:{port} ssl; server_name localhost; root {root};\n\
             ssl_certificate {dir}/https.pem; ssl_certificate_key {dir}/https.key;\n\
             ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384; }}\n\
         }}\n"
    );
    text
}
