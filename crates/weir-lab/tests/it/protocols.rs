//! TLS.

use crate::plan::{closed, get, program, run, samples, step};
use crate::server::Server;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use weir_lab::program::Body;
use weir_lab::sample::ErrorKind;

fn acceptor() -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[test]
fn tls_carries_requests_of_any_size() {
    let server = Server::start_with(Some(acceptor()));
    let mut origin = server.origin();
    origin.tls = true;
    let mut post = get(&origin, "/echo");
    post.method = "POST".to_owned();
    post.body = Body::Bytes(vec![b'x'; 2_000_000].into());
    let small = get(&origin, "/");
    let summary = run(program(closed(3, 5), vec![step(small), step(post)]));
    let tally = samples(&summary);
    assert_eq!((tally.ok, tally.body, server.connections()), (30, 15 * 2_000_005, 3));
    assert_eq!(tally.sent, server.received(), "bytes of HTTP, not of TLS");
}

#[test]
fn a_certificate_of_nobody_is_refused_unless_told_otherwise() {
    let server = Server::start_with(Some(acceptor()));
    let mut origin = server.origin();
    origin.tls = true;
    let mut strict = program(closed(1, 1), vec![step(get(&origin, "/"))]);
    strict.insecure = false;
    let summary = run(strict);
    assert_eq!(samples(&summary).errors[ErrorKind::Tls.index()], 1);
}

#[test]
fn tls_to_a_server_without_it_is_an_error() {
    let server = Server::start();
    let mut origin = server.origin();
    origin.tls = true;
    origin.host = "localhost".to_owned();
    let _ = &server;
    let mut request = get(&origin, "/");
    request.timeouts.connect = std::time::Duration::from_millis(500);
    let summary = run(program(closed(1, 2), vec![step(request)]));
    assert_eq!(samples(&summary).failed(), 2);
}
