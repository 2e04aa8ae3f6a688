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
    acceptor_of(&[])
}

/// With these protocols of ALPN.
pub(crate) fn acceptor_of(protocols: &[&[u8]]) -> TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into());
    let mut config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
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

/// A proxy for one connection that answers `CONNECT` with a status. Gives its port and the request line.
fn proxy(status: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    use std::io::{Read, Write, copy};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let line = head.lines().next().unwrap().to_owned();
        write!(client, "HTTP/1.1 {status}\r\n\r\n").unwrap();
        if status.starts_with("200") {
            let target = line.split(' ').nth(1).unwrap();
            let mut server = std::net::TcpStream::connect(target).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                to.shutdown(std::net::Shutdown::Write)
            });
            // The end of a connection is no matter of the proxy.
            let _ = copy(&mut server, &mut client);
        }
        line
    });
    (port, thread)
}

#[test]
fn tls_goes_through_a_tunnel_of_a_proxy() {
    let server = Server::start_with(Some(acceptor()));
    let mut origin = server.origin();
    origin.tls = true;
    let through = |status| {
        let (port, thread) = proxy(status);
        let mut request = get(&origin, "/");
        request.client.proxy = Some(("127.0.0.1".to_owned(), port));
        let summary = run(program(closed(1, 1), vec![step(request)]));
        let tally = samples(&summary);
        ((tally.ok, tally.failed()), thread)
    };
    let (counts, thread) = through("200 Connection established");
    assert_eq!((counts, server.connections()), ((1, 0), 1));
    let line = format!("CONNECT 127.0.0.1:{} HTTP/1.1", origin.port);
    assert_eq!(thread.join().unwrap(), line);
    let (counts, _) = through("407 Proxy Authentication Required");
    assert_eq!((counts, server.connections()), ((0, 1), 1), "no request without a tunnel");
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

/// A server that requires a certificate of its own authority, whose name is `lab.test`, and the files of
/// a client.
fn mutual() -> (Server, tempfile::TempDir) {
    let made = rcgen::generate_simple_self_signed(["lab.test".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("both.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("both.key"), made.signing_key.serialize_pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Server::start_with(Some(TlsAcceptor::from(Arc::new(config)))), folder)
}

#[test]
fn mutual_tls_needs_the_clients_certificate_and_the_servers_name() {
    let (server, folder) = mutual();
    let base = format!("https://127.0.0.1:{}", server.origin().port);
    let outcome = |tls: &str| {
        let text = format!(
            "lab: 1\ntarget: {{base: \"{base}\", tls: {tls}}}\nrequests: [{{get: /}}]\n\
             load: {{executor: shared-iterations, vus: 1, iterations: 2}}\n"
        );
        let path = folder.path().join("scenario.yaml");
        let (scenario, _) =
            weir_lab::scenario::load_text(&path, &text, &Default::default()).unwrap();
        let summary = run(scenario.cells[0].program.clone());
        (samples(&summary).ok, samples(&summary).failed())
    };
    let complete = "{cert: both.crt, key: both.key, ca: both.crt, server_name: lab.test}";
    assert_eq!(outcome(complete), (2, 0));
    assert_eq!(outcome("{ca: both.crt, server_name: lab.test}"), (0, 2), "no certificate");
    assert_eq!(outcome("{cert: both.crt, key: both.key, ca: both.crt}"), (0, 2), "another name");
    assert_eq!(
        outcome("{cert: both.crt, key: both.key, server_name: lab.test}"),
        (0, 2),
        "no trust"
    );
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

/// A server of HTTP/2 that processes three requests of a connection and refuses all others; it ends with the test.
fn refusing_http2_server() -> Origin {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    let mut left = 3;
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        if left == 0 {
                            respond.send_reset(h2::Reason::REFUSED_STREAM);
                        } else {
                            left -= 1;
                            respond.send_response(hyper::Response::new(()), true).unwrap();
                        }
                    }
                });
            }
        });
    });
    Origin { tls: false, host: "127.0.0.1".to_owned(), port }
}

#[test]
fn a_request_that_a_used_http2_connection_refuses_is_sent_again_on_a_new_one() {
    let mut request = get(&refusing_http2_server(), "/");
    request.http2 = true;
    let summary = run(program(closed(1, 10), vec![step(request)]));
    let tally = samples(&summary);
    assert_eq!((tally.ok, tally.failed(), tally.connects), (10, 0, 4));
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
