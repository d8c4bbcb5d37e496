//! Keys for a debugger's eyes: TLS secrets in the format of `SSLKEYLOGFILE`, and a line of ours for each
//! direction's records. Whoever reads the file reads the connections.
//!
//! ```text
//! FUSEWIRE_CLIENT_RECORDS_0 <client random, hex> <traffic secret of epoch 0, hex>
//! FUSEWIRE_SERVER_RECORDS_0 <client random, hex> <traffic secret of epoch 0, hex>
//! ```

use crate::error::Error;
use crate::handshake::Side;
use crate::keys::TrafficSecret;
use crate::state_file;
use data_encoding::HEXLOWER;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use zeroize::Zeroizing;

/// A file that keys are appended to, made with mode 0600.
#[derive(Debug)]
pub struct KeyLogFile(Mutex<File>);

impl KeyLogFile {
    /// Opens or makes the file at `path`, which may be no link.
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Owner`].
    pub fn open(path: &Path) -> Result<KeyLogFile, Error> {
        let os = |e| Error::os("open", path, e);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags);
        let file = options.open(path).map_err(os)?;
        let meta = file.metadata().map_err(os)?;
        if !meta.is_file() {
            return Err(os(std::io::Error::other("it is not a regular file")));
        }
        state_file::check_owner(&meta, path)?;
        Ok(KeyLogFile(Mutex::new(file)))
    }

    fn line(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = Zeroizing::new(String::with_capacity(256));
        line.push_str(label);
        for bytes in [client_random, secret] {
            line.push(' ');
            HEXLOWER.encode_append(bytes, &mut line);
        }
        line.push('\n');
        let mut file = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "cannot write to the key log");
        }
    }

    pub(crate) fn log_records(
        &self,
        sender: Side,
        client_random: &[u8; 32],
        secret: &TrafficSecret,
    ) {
        let label = match sender {
            Side::Client => "FUSEWIRE_CLIENT_RECORDS_0",
            Side::Server => "FUSEWIRE_SERVER_RECORDS_0",
        };
        self.line(label, client_random, secret.as_bytes());
    }
}

impl rustls::KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.line(label, client_random, secret);
    }
}
