//! A gRPC server on the frames of `h2`, which does what the id of an order names.
//!
//! | `order_id` | reply of `Get` |
//! |---|---|
//! | `missing`, `busy` | NOT_FOUND; UNAVAILABLE with a message |
//! | `slow` | none |
//! | `html`, `503`, `silent`, `empty`, `two` | no gRPC, a status of HTTP, no status, no message, two messages |
//! | `large`, `cut`, `gzip`, `zstd`, `noise` | a message that is too large, incomplete, compressed, malformed |
//! | any other one | the order |
//!
//! `Watch` sends three orders, or orders without end for `endless`; `Put` sends their number as `cents`; `Talk`
//! sends each order back.

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzEncoder;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// The schema of the server.
pub(super) const SCHEMA: &str = "syntax = \"proto3\"; package shop;\n\
    enum State { NEW = 0; PAID = 1; }\n\
    message Item { string name = 1; int32 count = 2; }\n\
    message Order { string order_id = 1; int64 cents = 2; bool gift = 3; State state = 4; repeated Item items = 5; }\n\
    service Orders {\n\
      rpc Get(Order) returns (Order); rpc Watch(Order) returns (stream Order);\n\
      rpc Put(stream Order) returns (Order); rpc Talk(stream Order) returns (stream Order);\n\
    }\n";

/// What the server does besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Plain,
    /// Has reflection, of this version.
    Reflection(&'static str),
    /// Ends each connection after a call.
    GoAway,
    /// Refuses every call but the first one of a connection.
    Refusing,
}

pub(super) struct Server {
    pub(super) addr: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicU64,
    /// Fields of calls.
    heads: Mutex<Vec<http::HeaderMap>>,
}

impl Server {
    pub(super) fn start(mode: Mode) -> Self {
        Self::start_with(mode, None)
    }

    pub(super) fn start_with(mode: Mode, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let shared = seen.clone();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let orders = orders();
                while let Ok((stream, _)) = listener.accept().await {
                    shared.connections.fetch_add(1, Ordering::SeqCst);
                    let (shared, orders, tls) = (shared.clone(), orders.clone(), tls.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, (mode, orders), shared).await,
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    serve(stream, (mode, orders), shared).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        Self { addr, seen }
    }

    pub(super) fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The value of a field of the first call.
    pub(super) fn field(&self, name: &str) -> String {
        let heads = self.seen.heads.lock().unwrap();
        let value = heads[0].get(name).map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    }
}

fn orders() -> DescriptorPool {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), SCHEMA).unwrap();
    let files = protox::compile(["shop.proto"], [folder.path()]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

async fn serve(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    (mode, orders): (Mode, DescriptorPool),
    seen: Arc<Seen>,
) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut calls = 0;
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        calls += 1;
        if mode == Mode::Refusing && calls > 1 {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        seen.heads.lock().unwrap().push(request.headers().clone());
        let orders = orders.clone();
        tokio::spawn(async move { answer(request, respond, (mode, orders)).await });
        if mode == Mode::GoAway {
            connection.graceful_shutdown();
        }
    }
}

/// Reads framed messages.
struct Messages(RecvStream, Vec<u8>);

impl Messages {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(prefix) = self.1.first_chunk::<5>() {
                let end =
                    5 + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if self.1.len() >= end {
                    let message = Bytes::copy_from_slice(&self.1[5..end]);
                    self.1.drain(..end);
                    return Some(message);
                }
            }
            let part = self.0.data().await?.ok()?;
            let _ = self.0.flow_control().release_capacity(part.len());
            self.1.extend_from_slice(&part);
        }
    }
}

fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut out = vec![flag];
    out.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    out.extend_from_slice(message);
    out.into()
}

fn status(code: u8, message: &'static str) -> http::HeaderMap {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", u16::from(code).into());
    trailers.insert("grpc-message", http::HeaderValue::from_static(message));
    trailers.insert("x-last", http::HeaderValue::from_static("trailer"));
    trailers
}

fn head(code: u16, fields: &[(&'static str, &'static str)]) -> http::Response<()> {
    let mut head = http::Response::builder().status(code);
    for (name, value) in fields {
        head = head.header(*name, *value);
    }
    head.body(()).unwrap()
}

async fn answer(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    (mode, orders): (Mode, DescriptorPool),
) {
    let (parts, body) = request.into_parts();
    let mut messages = Messages(body, Vec::new());
    let grpc = [("content-type", "application/grpc"), ("x-first", "head")];
    let order = orders.get_message_by_name("shop.Order").unwrap();
    let path = parts.uri.path();
    if path.starts_with("/grpc.reflection.") {
        return match mode {
            Mode::Reflection(version) if path.contains(version) => {
                let question = messages.next().await.unwrap();
                let reply = reflected(&question, &orders);
                let mut send = respond.send_response(head(200, &grpc), false).unwrap();
                let _ = send.send_data(framed(0, &reply), false);
                let _ = send.send_trailers(status(0, ""));
            }
            _ => {
                let mut head = head(200, &grpc);
                head.headers_mut().extend(status(12, "unknown"));
                let _ = respond.send_response(head, true);
            }
        };
    }
    if path == "/shop.Orders/Get" {
        let message = messages.next().await.unwrap_or_default();
        return get(&order, message, respond).await;
    }
    let Ok(mut send) = respond.send_response(head(200, &grpc), false) else { return };
    match path {
        "/shop.Orders/Watch" => {
            let first = messages.next().await.unwrap_or_default();
            let endless = id(&order, &first) == "endless";
            for at in 0.. {
                if !endless && at == 3 {
                    break;
                }
                if at > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                if send.send_data(framed(0, &numbered(&order, at)), false).is_err() {
                    return;
                }
            }
        }
        "/shop.Orders/Put" => {
            let mut count = 0;
            while messages.next().await.is_some() {
                count += 1;
            }
            let _ = send.send_data(framed(0, &numbered(&order, count)), false);
        }
        "/shop.Orders/Talk" => {
            while let Some(message) = messages.next().await {
                let _ = send.send_data(framed(0, &message), false);
            }
        }
        _ => {
            let _ = send.send_trailers(status(12, "unknown"));
            return;
        }
    }
    let _ = send.send_trailers(status(0, ""));
}

async fn get(order: &MessageDescriptor, message: Bytes, mut respond: SendResponse<Bytes>) {
    let id = id(order, &message);
    let grpc = [("content-type", "application/grpc"), ("x-first", "head")];
    let coded = |coding| [("content-type", "application/grpc"), ("grpc-encoding", coding)];
    let start = |respond: &mut SendResponse<Bytes>, fields: &[_]| -> SendStream<Bytes> {
        respond.send_response(head(200, fields), false).unwrap()
    };
    let (data, trailers) = match id.as_str() {
        "missing" => {
            let mut head = head(200, &grpc);
            head.headers_mut().extend(status(5, "no%20such order"));
            let _ = respond.send_response(head, true);
            return;
        }
        "busy" => (Bytes::new(), status(14, "try later")),
        "slow" => {
            tokio::time::sleep(Duration::from_secs(20)).await;
            return;
        }
        "html" => {
            let _ = respond.send_response(head(200, &[("content-type", "text/html")]), true);
            return;
        }
        "503" => {
            let mut send = respond.send_response(head(503, &[]), false).unwrap();
            let _ = send.send_data(Bytes::from_static(b"busy"), true);
            return;
        }
        "silent" => {
            let _ = start(&mut respond, &grpc).send_data(framed(0, &message), true);
            return;
        }
        "gzip" | "zstd" => {
            let mut packed = Vec::new();
            GzEncoder::new(&*message, Compression::fast()).read_to_end(&mut packed).unwrap();
            let coding = if id == "gzip" { "gzip" } else { "zstd" };
            let mut send = start(&mut respond, &coded(coding));
            let _ = send.send_data(framed(1, &packed), false);
            let _ = send.send_trailers(status(0, ""));
            return;
        }
        "empty" => (Bytes::new(), status(0, "")),
        "two" => ([framed(0, &message), framed(0, &message)].concat().into(), status(0, "")),
        "large" => (Bytes::from_static(&[0, 0xff, 0, 0, 0]), status(0, "")),
        "cut" => (Bytes::from_static(&[0, 0, 0, 0, 9, 1]), status(0, "")),
        "noise" => (framed(0, b"\xff\xff"), status(0, "")),
        _ => (framed(0, &message), status(0, "")),
    };
    let mut send = start(&mut respond, &grpc);
    let _ = send.send_data(data, false);
    let _ = send.send_trailers(trailers);
}

fn id(order: &MessageDescriptor, message: &[u8]) -> String {
    let order = DynamicMessage::decode(order.clone(), message).unwrap();
    order.get_field_by_name("order_id").unwrap().as_str().unwrap().to_owned()
}

fn numbered(order: &MessageDescriptor, cents: i64) -> Vec<u8> {
    let mut message = DynamicMessage::new(order.clone());
    message.set_field_by_name("cents", Value::I64(cents));
    message.encode_to_vec()
}

/// The reply of the reflection, byte by byte: the file of a symbol, names of services, or an error.
fn reflected(question: &[u8], orders: &DescriptorPool) -> Vec<u8> {
    let field = |tag: u8, content: &[u8]| {
        let mut out = vec![tag << 3 | 2];
        prost_reflect::prost::encoding::encode_varint(content.len() as u64, &mut out);
        out.extend_from_slice(content);
        out
    };
    match question {
        b"\x22\x0bshop.Orders" => {
            let file = orders.get_file_by_name("shop.proto").unwrap().encode_to_vec();
            field(4, &field(1, &file))
        }
        [0x3a, ..] => field(6, &field(1, &field(1, b"shop.Orders"))),
        _ => field(7, &[&[8, 5][..], &field(2, b"not found")].concat()),
    }
}
