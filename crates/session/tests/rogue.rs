//! Clients that do not keep to the protocol, made with rustls itself, against our server; and such servers.

mod common;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::Ed25519KeyPair;
use common::Sides;
use fusewire_session::hello::Hello;
use fusewire_session::{
    Allow, Cipher, Error, Fingerprint, Handshake, HandshakeError, Refusal, Swap, Trust,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert};
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::io::{Read, Write};
use std::sync::Arc;

/// Believes every server.
#[derive(Debug)]
struct Credulous;

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Believes every client.
impl ClientCertVerifier for Credulous {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Speaks of raw public keys and has none.
#[derive(Debug)]
struct Nobody;

impl ResolvesClientCert for Nobody {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        true
    }
    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

fn key() -> Arc<CertifiedKey> {
    let der: Pkcs8V1Der<'_> = Ed25519KeyPair::generate().unwrap().as_der().unwrap();
    let signer = any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_ref())).unwrap();
    let spki = signer.public_key().unwrap().to_vec();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], signer))
}

fn config(client: Arc<dyn ResolvesClientCert>) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous))
        .with_client_cert_resolver(client);
    config.alpn_protocols = vec![b"fusewire/2".to_vec()];
    config
}

fn honest_tls() -> ClientConfig {
    config(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key())))
}

/// Runs TLS, then lets `rogue` misbehave once. Gives what the server makes of it, and what it said.
fn against_server(
    config: ClientConfig,
    rogue: impl FnOnce(&mut ClientConnection),
) -> (Result<(), Error>, Vec<u8>) {
    let mut sides = Sides::new();
    sides.server.allow = Allow::Public;
    let mut server = Handshake::server(&sides.server).unwrap();
    let name = ServerName::try_from("x.invalid").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut rogue = Some(rogue);
    let mut result = Ok(());
    let mut said = [0; 2000];
    let mut said_len = 0;
    for _ in 0..10 {
        let mut flight = Vec::new();
        if !client.is_handshaking()
            && let Some(rogue) = rogue.take()
        {
            rogue(&mut client);
        }
        while client.wants_write() {
            client.write_tls(&mut flight).unwrap();
        }
        if result.is_ok() {
            result = server.read(&flight).map(drop);
        }
        let mut flight = Vec::new();
        server.write(&mut flight);
        let mut rest = &flight[..];
        while !rest.is_empty() && client.read_tls(&mut rest).is_ok_and(|n| n > 0) {
            let _ = client.process_new_packets();
        }
        if let Ok(n) = client.reader().read(&mut said[said_len..]) {
            said_len += n;
        }
    }
    if result.is_ok() && server.poll().is_none() {
        result = Err(server.ended());
    }
    (result, said[..said_len].to_vec())
}

fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    let ciphers = vec![Cipher::AES_256_GCM];
    Hello {
        version: 1,
        allow_insecure: false,
        element: Swap::None,
        body_len_max: 1,
        ciphers,
        shared_memory: false,
        idle_timeout: None,
        protection: None,
        early: 0,
        terms: fusewire_session::Terms::default(),
    }
    .emit(&mut out);
    out
}

fn send(message: Vec<u8>) -> impl FnOnce(&mut ClientConnection) {
    move |client| client.writer().write_all(&message).unwrap()
}

fn failed(result: Result<(), Error>) -> HandshakeError {
    match result {
        Err(Error::Handshake(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_client_is_served_when_it_behaves() {
    let (result, said) = against_server(honest_tls(), send(hello()));
    result.unwrap();
    assert_eq!(said[..4], [2, 1, 1, 0], "a Choice");
}

#[test]
fn a_client_without_key_is_refused() {
    let (result, said) = against_server(config(Arc::new(Nobody)), send(hello()));
    assert!(matches!(failed(result), HandshakeError::Tls(_)));
    assert!(said.is_empty());
}

#[test]
fn another_or_no_application_protocol_is_refused() {
    for protocols in [vec![], vec![&b"h2"[..]], vec![b"fusewire/1"]] {
        let mut config = honest_tls();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let (result, said) = against_server(config, send(hello()));
        assert_eq!(failed(result), HandshakeError::NoCommonProtocol);
        assert!(said.is_empty());
    }
}

#[test]
fn a_bad_hello_is_refused_in_words() {
    let mut of_version_0 = hello();
    of_version_0[1] = 0;
    let mut unknown_ciphers = hello();
    unknown_ciphers[9..11].copy_from_slice(&[0x70, 0]);
    let mut cut = hello();
    cut.pop();
    for (message, refusal) in [
        (of_version_0, Refusal::Malformed),
        (unknown_ciphers, Refusal::NoCommonCipher),
        (cut, Refusal::Malformed),
        (vec![0xff; 1024], Refusal::Malformed),
    ] {
        let (result, said) = against_server(honest_tls(), send(message));
        assert_eq!(failed(result), HandshakeError::RefusedByUs(refusal));
        assert_eq!((said.len(), said[0]), (2, 3), "a Refusal");
    }
    // A later version is answered with ours: the client may still speak it.
    let mut of_version_2 = hello();
    of_version_2[1] = 2;
    let (result, said) = against_server(honest_tls(), send(of_version_2));
    result.unwrap();
    assert_eq!(said[..2], [2, 1]);
}

#[test]
fn anything_but_one_message_in_one_record_ends_the_handshake() {
    let not_one = HandshakeError::Message { expected: "Hello" };
    let (result, said) = against_server(honest_tls(), send(vec![0; 1025]));
    assert_eq!(failed(result), not_one);
    assert!(said.is_empty());
    let (result, _) = against_server(honest_tls(), |client| client.send_close_notify());
    assert_eq!(failed(result), not_one);
    let (result, _) = against_server(honest_tls(), |client| {
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(&hello()).unwrap();
    });
    assert_eq!(failed(result), not_one, "a key update before the Hello");
}

fn saying(count: u8) -> Vec<u8> {
    let mut hello = Hello::parse(&hello()).unwrap();
    hello.early = count;
    hello.body_len_max = 1000;
    let mut out = Vec::new();
    hello.emit(&mut out);
    out
}

fn early_tls() -> ClientConfig {
    let mut config = honest_tls();
    config.alpn_protocols = vec![b"fusewire/2+early".to_vec()];
    config
}

/// Sends messages, each in a TLS record of its own.
fn send_all(messages: Vec<Vec<u8>>) -> impl FnOnce(&mut ClientConnection) {
    move |client| messages.iter().for_each(|m| client.writer().write_all(m).unwrap())
}

#[test]
fn early_adus_are_counted_and_each_is_a_message() {
    let adu = || vec![4, 0, 0, 0, 2, b'a', b'b'];
    let (result, said) = against_server(early_tls(), send_all(vec![saying(2), adu(), adu()]));
    result.unwrap();
    assert_eq!(said[..4], [2, 1, 1, 0], "a Choice");
    // One too few: the server waits, and has answered nothing.
    let (result, said) = against_server(early_tls(), send_all(vec![saying(2), adu()]));
    assert_eq!((failed(result), said.len()), (HandshakeError::Ended, 0));
    let expected = "an ADU of the agreed length";
    for wrong in [vec![], saying(1), vec![4, 0, 0, 0, 3, b'a', b'b'], vec![4; 8198]] {
        let (result, said) = against_server(early_tls(), send_all(vec![saying(1), wrong]));
        let error = failed(result);
        let nothing_came = error == HandshakeError::Ended;
        assert!(error == HandshakeError::Message { expected } || nothing_came, "{error}");
        assert!(said.is_empty());
    }
    let (result, _) = against_server(early_tls(), |client| {
        client.writer().write_all(&saying(1)).unwrap();
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(&[4, 0, 0, 0, 0]).unwrap();
    });
    assert_eq!(failed(result), HandshakeError::Message { expected }, "a key update in between");
    let (result, _) = against_server(early_tls(), |client| {
        client.writer().write_all(&saying(1)).unwrap();
        client.send_close_notify();
    });
    assert_eq!(failed(result), HandshakeError::Message { expected });
}

#[test]
fn early_adus_without_the_protocol_for_them_are_refused() {
    let messages = vec![saying(1), vec![4, 0, 0, 0, 0]];
    let (result, said) = against_server(honest_tls(), send_all(messages));
    assert_eq!(failed(result), HandshakeError::RefusedByUs(Refusal::Malformed));
    assert_eq!(said, [3, 5], "a Refusal");
    for count in [&[0][..], &[1, 1], &[]] {
        let mut bad = hello();
        bad.truncate(bad.len() - 2);
        bad.extend([0, 4 + count.len() as u8, 0, 4, 0, count.len() as u8]);
        bad.extend(count);
        let (result, _) = against_server(early_tls(), send(bad));
        assert_eq!(failed(result), HandshakeError::RefusedByUs(Refusal::Malformed), "{count:?}");
    }
}

/// A server that has the pinned key and answers what nobody offered, or less than was asked for: the client ends it, and
/// what it said is told to nobody else.
#[test]
fn a_client_takes_no_choice_that_it_has_not_offered() {
    let choice = |cipher: [u8; 2], element: u8| {
        let mut message = vec![2, 1, cipher[0], cipher[1], element];
        message.extend([0, 1, 0, 0, 0, 0]);
        message
    };
    let cases = [
        (choice([1, 0], 0), None),
        (choice([2, 0], 0), Some(HandshakeError::RefusedByUs(Refusal::NoCommonCipher))),
        (choice([1, 0], 4), Some(HandshakeError::RefusedByUs(Refusal::NoCommonCipher))),
        (choice([0x80, 0], 0), Some(HandshakeError::RefusedByUs(Refusal::Insecure))),
        (vec![3, 2], Some(HandshakeError::RefusedByPeer(Refusal::NoCommonCipher))),
        (vec![4, 0, 0, 0, 0], Some(HandshakeError::Message { expected: "Choice" })),
    ];
    for (protocol, early) in [(&b"fusewire/2"[..], 0), (b"fusewire/2+early", 1)] {
        for (answer, error) in &cases {
            let key = key();
            let trust = Trust::Pinned(Fingerprint::of_spki(&key.cert[0]));
            let mut config = Sides::new().client;
            config.settings.ciphers = vec![Cipher::AES_256_GCM];
            config.trust = trust;
            let mut client = Handshake::client(&config).unwrap();
            assert!(client.send_early(b"to the server alone"));
            let mut tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_client_cert_verifier(Arc::new(Credulous))
                .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
            tls.alpn_protocols = vec![protocol.to_vec()];
            tls.send_tls13_tickets = 0;
            let mut server = ServerConnection::new(Arc::new(tls)).unwrap();
            let (mut heard, mut result, mut answer) = (Vec::new(), Ok(()), Some(answer));
            for _ in 0..4 {
                let mut flight = Vec::new();
                client.write(&mut flight);
                let mut rest = &flight[..];
                while !rest.is_empty() && server.read_tls(&mut rest).is_ok_and(|n| n > 0) {
                    server.process_new_packets().unwrap();
                    let mut message = [0; 2000];
                    while let Ok(len @ 1..) = server.reader().read(&mut message) {
                        heard.extend_from_slice(&message[..len]);
                    }
                }
                if !heard.is_empty()
                    && let Some(answer) = answer.take()
                {
                    server.writer().write_all(answer).unwrap();
                }
                let mut flight = Vec::new();
                while server.wants_write() {
                    server.write_tls(&mut flight).unwrap();
                }
                result = result.and_then(|()| client.read(&flight).map(drop));
            }
            let was_said = heard.ends_with(b"to the server alone");
            assert_eq!(was_said, early == 1);
            match error {
                None => assert_eq!(client.poll().unwrap().early.len(), 1 - early),
                Some(error) => {
                    assert_eq!(failed(result), *error);
                    assert!(client.poll().is_none());
                }
            }
        }
    }
}
