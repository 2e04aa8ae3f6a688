//! TLS and HTTP/2.

use crate::plan::{closed, get, program, run, samples, step};
use crate::server::Server;
use bytes::Bytes;
use hyper::body::{Body as _, Frame};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio_rustls::TlsAcceptor;
use weir_lab::program::{Body, CheckKind, Comparison, Field, Origin, Text, TextCheck};
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
fn an_unknown_certificate_is_rejected_unless_insecure() {
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

/// hyper's response: the length of the request body, and the method.
async fn answer(
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<Whole>, hyper::Error> {
    let method = request.method().to_string();
    let mut body = request.into_body();
    let mut length = 0;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        length += frame?.data_ref().map_or(0, Bytes::len);
    }
    let text = format!("{method} {length} {}", "x".repeat(100_000));
    Ok(hyper::Response::new(Whole(Some(text.into()))))
}

struct Whole(Option<Bytes>);

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Runs hyper's tasks on the runtime.
#[derive(Clone)]
struct Spawn;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// A server with prior knowledge of HTTP/2; it ends with the test.
fn http2_server() -> (Origin, Arc<AtomicU64>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::<AtomicU64>::default();
    let counted = requests.clone();
    std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(Default::default()).unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let counted = counted.clone();
                let service = hyper::service::service_fn(move |request| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    answer(request)
                });
                let connection = hyper::server::conn::http2::Builder::new(Spawn)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::task::spawn_local(connection);
            }
        });
    });
    (Origin { tls: false, host: "127.0.0.1".to_owned(), port }, requests)
}

#[test]
fn http2_has_the_same_samples() {
    let (origin, requests) = http2_server();
    let mut post = get(&origin, "/a?b");
    post.http2 = true;
    post.method = "POST".to_owned();
    post.body = Body::Bytes(vec![b'x'; 50_000].into());
    let patterns = vec![Text::fixed("POST 50000 x")];
    let check = TextCheck::new(Field::Body, Comparison::Substring, patterns);
    post.checks = vec![CheckKind::Text(check).into()];
    let summary = run(program(closed(4, 10), vec![step(post)]));
    let tally = samples(&summary);
    assert_eq!((tally.ok, tally.failed(), tally.connects), (40, 0, 4));
    assert_eq!(requests.load(Ordering::SeqCst), 40);
    assert_eq!(tally.body, 40 * (100_000 + "POST 50000 ".len() as u64));
    assert!(tally.sent > 40 * 50_000 && tally.received > tally.body, "frames and heads count");
}

#[test]
fn a_server_without_http2_is_an_error() {
    let server = Server::start();
    let mut request = get(&server.origin(), "/");
    request.http2 = true;
    request.timeouts.response = std::time::Duration::from_millis(300);
    request.timeouts.connect = std::time::Duration::from_millis(300);
    let summary = run(program(closed(1, 2), vec![step(request)]));
    assert_eq!(samples(&summary).failed(), 2);
}
