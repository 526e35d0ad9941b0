//! Tests TLS peers that are not Godwit: other protocols over TLS, or no certificate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use godwit_net::{AcceptError, AcceptOptions, DialError, DialOptions, Expect, accept, dial};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme,
};

use super::common::{PATIENCE, client_tls, listen, server_tls};

/// A new certificate and key, as any TLS software would make.
fn certificate() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["here".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (vec![certificate.der().clone()], key)
}

#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// A daemon's error for a TLS client that offers these protocols, with or without a certificate.
fn verdict_on_client(protocols: &[&str], with_certificate: bool) -> AcceptError {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let mut config = if with_certificate {
        let (chain, key) = certificate();
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let name = ServerName::try_from("here").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let (listener, address) = listen();
    let client = thread::spawn(move || {
        let mut tcp = TcpStream::connect((address.host(), address.port())).unwrap();
        while tls.is_handshaking() && tls.complete_io(&mut tcp).is_ok() {}
        let _ = tcp.read_to_end(&mut Vec::new());
    });
    let options = AcceptOptions {
        deadline: PATIENCE,
        ..AcceptOptions::default()
    };
    let accepted = accept(listener.accept().unwrap().0, &server_tls(&[]), &options);
    let Err(error) = accepted else {
        panic!("a stranger was let in")
    };
    client.join().unwrap();
    error
}

#[test]
fn tls_clients_of_other_protocols_are_refused_as_such() {
    for protocols in [&[][..], &["h2"], &["http/1.1", "godwit-data/9"]] {
        let error = verdict_on_client(protocols, true);
        assert!(matches!(error, AcceptError::Alpn { .. }), "{error}");
    }
}

#[test]
fn a_client_without_certificate_is_refused() {
    let error = verdict_on_client(&["godwit-data/1"], false);
    assert!(
        matches!(
            error,
            AcceptError::Tls {
                error: Error::NoCertificatesPresented,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_tls_server_of_another_protocol_is_no_daemon() {
    for protocols in [vec![], vec![b"h2".to_vec()]] {
        let (chain, key) = certificate();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap();
        config.alpn_protocols = protocols;
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        let (listener, address) = listen();
        let server = thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            while tls.is_handshaking() && tls.complete_io(&mut tcp).is_ok() {}
            let _ = tcp.flush();
            let _ = tcp.read_to_end(&mut Vec::new());
        });
        let dialled = dial(
            &address,
            &client_tls(&[]),
            &DialOptions::new(Expect::Anyone),
        );
        let Err(error) = dialled else {
            panic!("a stranger was taken for a daemon")
        };
        server.join().unwrap();
        assert!(matches!(error, DialError::NotGodwit { .. }), "{error}");
        assert!(error.to_string().contains("ALPN"), "{error}");
    }
}
