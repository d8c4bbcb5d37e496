//! How rustls is set up: TLS 1.3 only, Ed25519 raw public keys on both sides (RFC 7250), no tickets, no
//! early data of its own, ALPN `fusewire/2`.

use crate::config::{ClientConfig, ServerConfig, Settings, Trust};
use crate::error::{Error, HandshakeError};
use crate::fingerprint::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, PeerIncompatible, SignatureScheme,
    version,
};
use std::sync::{Arc, LazyLock, Mutex};

/// The application protocol: records and what they carry. 2: messages of the transfer that can be extended.
pub(crate) const ALPN: &[u8] = b"fusewire/2";
/// The same, by who sends and takes ADUs in the handshake.
pub(crate) const ALPN_EARLY: &[u8] = b"fusewire/2+early";

/// A SubjectPublicKeyInfo of Ed25519 (RFC 8410, section 4) is these bytes and 32 more.
const ED25519_SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
        ],
        // What is recorded today must not be readable by a quantum computer later.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..default_provider()
    })
});

/// The key that the peer showed, noted by the verifier for the handshake to pick up.
pub(crate) type Seen = Arc<Mutex<Option<Fingerprint>>>;

pub(crate) fn client(config: &ClientConfig, seen: Seen) -> Result<rustls::ClientConnection, Error> {
    let key = config.settings.identity.certified_key();
    let verifier = Arc::new(Verifier { trust: config.trust, seen });
    let mut tls = rustls::ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(HandshakeError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    tls.alpn_protocols = protocols(&config.settings);
    tls.key_log = key_log(&config.settings);
    tls.resumption = Resumption::disabled();
    tls.enable_early_data = false;
    tls.enable_sni = false;
    let name = ServerName::try_from("fusewire.invalid").expect("a valid name");
    Ok(rustls::ClientConnection::new(Arc::new(tls), name).map_err(HandshakeError::Tls)?)
}

pub(crate) fn server(config: &ServerConfig, seen: Seen) -> Result<rustls::ServerConnection, Error> {
    let key = config.settings.identity.certified_key();
    let mut tls = rustls::ServerConfig::builder_with_provider(PROVIDER.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(HandshakeError::Tls)?
        .with_client_cert_verifier(Arc::new(Verifier { trust: Trust::Ask, seen }))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    tls.alpn_protocols = protocols(&config.settings);
    tls.key_log = key_log(&config.settings);
    tls.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    tls.send_tls13_tickets = 0;
    tls.max_early_data_size = 0;
    Ok(rustls::ServerConnection::new(Arc::new(tls)).map_err(HandshakeError::Tls)?)
}

/// Best first.
fn protocols(settings: &Settings) -> Vec<Vec<u8>> {
    let early = settings.early.then(|| ALPN_EARLY.to_vec());
    early.into_iter().chain([ALPN.to_vec()]).collect()
}

fn key_log(settings: &Settings) -> Arc<dyn rustls::KeyLog> {
    match &settings.key_log {
        Some(log) => log.clone(),
        None => Arc::new(rustls::NoKeyLog),
    }
}

/// Takes an Ed25519 key in its one DER form, notes its fingerprint, and believes whom it trusts.
///
/// A server takes any client that proves its key. Whether it may be here is decided after the proof, so that
/// nobody can ask which keys are on the list, and the client is told why in words.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    seen: Seen,
}

impl Verifier {
    fn verify(&self, spki: &[u8], others: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let well_formed =
            spki.len() == 44 && spki.starts_with(&ED25519_SPKI_PREFIX) && others.is_empty();
        if !well_formed {
            return Err(CertificateError::BadEncoding.into());
        }
        let found = Fingerprint::of_spki(spki);
        *self.seen.lock().unwrap_or_else(|e| e.into_inner()) = Some(found);
        match self.trust {
            Trust::Pinned(expected) if expected != found => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(()),
        }
    }
}

/// What rustls asks of either side's verifier.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let spki = SubjectPublicKeyInfoDer::from(cert.as_ref());
            let algorithms = &PROVIDER.signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &spki, dss, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    signatures! {}
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    signatures! {}
}
