//! A client and servers that speak HTTP/2 frame by frame.

use crate::harness::Server;
use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::net::TcpStream;

/// A connection that a server has.
pub(crate) type Connection = h2::server::Connection<TcpStream, Bytes>;

/// A request.
pub(super) struct Call {
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    trailers: HeaderMap,
}

impl Call {
    /// A gRPC call of this path.
    pub(super) fn new(path: &str) -> Self {
        let headers = vec![("content-type", "application/grpc"), ("te", "trailers")];
        Self { path: path.to_owned(), headers, body: Vec::new(), trailers: HeaderMap::new() }
    }

    /// With one message, framed as gRPC does.
    pub(super) fn message(mut self, text: &str) -> Self {
        self.body.push(0);
        self.body.extend_from_slice(&(text.len() as u32).to_be_bytes());
        self.body.extend_from_slice(text.as_bytes());
        self
    }

    /// Of this content type, and so no call of gRPC.
    pub(super) fn instead_of_grpc(mut self, kind: &'static str) -> Self {
        self.headers.retain(|(name, _)| *name != "content-type");
        self.header("content-type", kind)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn trailer(mut self, name: &'static str, value: &'static str) -> Self {
        self.trailers.insert(name, HeaderValue::from_static(value));
        self
    }
}

/// An answer.
pub(super) struct Response {
    pub(super) status: u16,
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
    trailers: HeaderMap,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(super) fn trailer(&self, name: &str) -> &str {
        self.trailers.get(name).map_or("", |value| value.to_str().expect("text"))
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    runtime.expect("a runtime").block_on(work)
}

/// Sends a request over a connection of its own; gives what its answer comes by.
async fn send(weir: SocketAddr, call: Call) -> h2::client::ResponseFuture {
    let stream = TcpStream::connect(weir).await.expect("a connection");
    let (sender, connection) = h2::client::handshake(stream).await.expect("a handshake");
    tokio::task::spawn_local(connection);
    let mut request = Request::post(format!("http://localhost{}", call.path));
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    let mut sender = sender.ready().await.expect("it is ready");
    let request = request.body(()).expect("a request");
    let (response, mut body) = sender.send_request(request, false).expect("it is sent");
    let last = call.trailers.is_empty();
    body.send_data(call.body.into(), last).expect("it is sent");
    if !last {
        body.send_trailers(call.trailers).expect("they are sent");
    }
    response
}

/// Makes a request and reads the answer to its end.
pub(super) fn call(weir: &Server, call: Call) -> Response {
    block_on(async {
        let response = send(weir.listen[0], call).await.await.expect("an answer");
        let (parts, mut incoming) = response.into_parts();
        let body = read(&mut incoming).await;
        let trailers = incoming.trailers().await.expect("an end").unwrap_or_default();
        Response { status: parts.status.as_u16(), headers: parts.headers, body, trailers }
    })
}

/// Makes a request and leaves before there is an answer.
pub(super) fn cancelled(weir: &Server, call: Call) {
    block_on(async {
        let response = send(weir.listen[0], call).await;
        let soon = std::time::Duration::from_millis(2);
        let _ = tokio::time::timeout(soon, response).await;
    });
}

async fn read(incoming: &mut RecvStream) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = incoming.data().await {
        body.extend_from_slice(&piece);
        let _ = incoming.flow_control().release_capacity(piece.len());
    }
    body
}

/// The head of an answer.
pub(crate) fn head(status: u16) -> http::Response<()> {
    http::Response::builder().status(status).body(()).expect("a head")
}

/// A server whose connections do what `how` says; gives its address and how many there have been.
pub(crate) fn odd<F>(
    how: impl Fn(usize, Connection) -> F + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a socket");
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, SeqCst);
                if let Ok(connection) = h2::server::handshake(stream).await {
                    tokio::task::spawn_local(how(number, connection));
                }
            }
        });
    });
    (addr, connections)
}

/// A server that refuses every other stream of a connection, the first among them.
pub(super) fn refusing() -> SocketAddr {
    let serve = |_, mut connection: Connection| async move {
        let mut count = 0;
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            count += 1;
            if count % 2 == 1 {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
            } else {
                let _ = respond.send_response(head(204), true);
            }
        }
    };
    odd(serve).0
}

/// A server that answers `/CODE/WHAT`: its body and this status in its trailers, the status `Alone`
/// in the head, without one if it is `Plain`, or `Never`.
pub(super) fn responding() -> SocketAddr {
    let serve = |_, mut connection: Connection| async move {
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::task::spawn_local(response(request, respond));
        }
    };
    odd(serve).0
}

async fn response(request: Request<RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let (parts, mut incoming) = request.into_parts();
    let words: Vec<&str> = parts.uri.path().split('/').collect();
    let status = HeaderValue::from_str(words[1]).expect("a value");
    let mut head = head(200);
    let path = parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    head.headers_mut().insert("x-path", HeaderValue::from_str(path).expect("a value"));
    for (from, to) in [("x-asked", "x-answered"), ("te", "x-te"), ("via", "x-via")] {
        if let Some(value) = parts.headers.get(from) {
            head.headers_mut().insert(HeaderName::from_static(to), value.clone());
        }
    }
    match words[2] {
        "Never" => {
            let _ = poll_fn(|cx| respond.poll_reset(cx)).await;
        }
        "Alone" => {
            head.headers_mut().insert("grpc-status", status);
            let _ = respond.send_response(head, true);
        }
        what => {
            let Ok(mut out) = respond.send_response(head, false) else { return };
            let body = read(&mut incoming).await;
            let trailers = incoming.trailers().await.ok().flatten();
            let _ = out.send_data(body.into(), what == "Plain");
            if what != "Plain" {
                let mut trailers = trailers.unwrap_or_default();
                trailers.insert("grpc-status", status);
                let _ = out.send_trailers(trailers);
            }
        }
    }
}
