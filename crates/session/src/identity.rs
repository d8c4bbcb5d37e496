//! A side's own Ed25519 key, in a file that only its user may read.

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::state_file;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::Ed25519KeyPair;
use core::fmt;
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// A private key with its fingerprint.
///
/// The file holds PKCS #8 (RFC 5958) in PEM, readable by `openssl pkey`.
pub struct Identity {
    key: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl Identity {
    /// Reads the key at `path`; makes one there on first use. Of many processes that do so at once, one
    /// makes it and all get the same.
    ///
    /// # Errors
    /// [`Error::KeyFileMode`] if others may read or write the file, [`Error::Owner`] if it belongs to somebody
    /// else but root, [`Error::Text`] if it holds no
    /// Ed25519 key, [`Error::Os`].
    pub fn load_or_create(path: &Path) -> Result<Identity, Error> {
        if let Some(identity) = Identity::load_if_there(path)? {
            return Ok(identity);
        }
        state_file::create(path, generate()?.as_bytes())?;
        Identity::load(path)
    }

    /// Reads the key at `path`.
    ///
    /// # Errors
    /// As [`load_or_create`](Self::load_or_create); a missing file is [`Error::Os`].
    pub fn load(path: &Path) -> Result<Identity, Error> {
        Identity::load_if_there(path)?
            .ok_or_else(|| Error::os("read", path, ErrorKind::NotFound.into()))
    }

    /// Replaces the key at `path` by a new one. The old one is gone: peers that pinned it or allowed it
    /// must be told the new fingerprint.
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Crypto`]; the old key is then still there.
    pub fn rotate(path: &Path) -> Result<Identity, Error> {
        state_file::locked(path, || {
            state_file::replace(path, generate()?.as_bytes())?;
            Identity::load(path)
        })
    }

    /// A key in memory alone, for a single run.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn ephemeral() -> Result<Identity, Error> {
        Identity::from_pem(&generate()?, Path::new("a new key"))
    }

    /// The fingerprint of the public key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(crate) fn certified_key(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }

    fn load_if_there(path: &Path) -> Result<Option<Identity>, Error> {
        let os = |e| Error::os("read", path, e);
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(os(e)),
        };
        // Of the open file, so that nobody can put another in its place meanwhile.
        let meta = file.metadata().map_err(os)?;
        state_file::check_owner(&meta, path)?;
        let mode = meta.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Error::KeyFileMode { path: path.to_path_buf(), mode });
        }
        let mut text = Zeroizing::new(String::with_capacity(4096));
        file.by_ref().take(4096).read_to_string(&mut text).map_err(os)?;
        Identity::from_pem(&text, path).map(Some)
    }

    fn from_pem(text: &str, path: &Path) -> Result<Identity, Error> {
        let wrong = || Error::Text {
            what: format!("key file {}", path.display()),
            expected: "an Ed25519 private key, PKCS #8 in PEM",
            found: "something else".into(),
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| wrong())?;
        let signer = any_eddsa_type(&der).map_err(|_| wrong())?;
        let spki = signer.public_key().ok_or_else(wrong)?.to_vec();
        let fingerprint = Fingerprint::of_spki(&spki);
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer));
        Ok(Identity { key, fingerprint })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint)
    }
}

fn generate() -> Result<Zeroizing<String>, Error> {
    let pair = Ed25519KeyPair::generate().map_err(|_| Error::Crypto("make a key"))?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| Error::Crypto("encode a key"))?;
    Ok(pem(der.as_ref()))
}

/// PEM of a private key (RFC 7468, section 10). A key of 48 bytes is one line.
fn pem(der: &[u8]) -> Zeroizing<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Zeroizing::new(String::with_capacity(256));
    out.push_str("-----BEGIN PRIVATE KEY-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let mut bytes = [0; 4];
            bytes[1..1 + three.len()].copy_from_slice(three);
            let bits = u32::from_be_bytes(bytes);
            for i in 0..4 {
                let digit = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
                out.push(if i <= three.len() { char::from(digit) } else { '=' });
            }
        }
        out.push('\n');
    }
    out.push_str("-----END PRIVATE KEY-----\n");
    out
}
