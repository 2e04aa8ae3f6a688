//! Clients that do everything at once, and note what they received whole.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Status of every answer that came whole, by transaction id.
pub(super) type Responses = BTreeMap<String, u16>;

/// What a client does.
#[derive(Clone, Copy)]
enum Kind {
    /// A declared reply.
    Hello,
    /// 1 KiB through to the upstream.
    Echo,
    /// 100 KiB in chunks.
    Chunked,
    /// 100 KiB, of which a part is sent, or of whose answer a part is read.
    Aborted,
    /// An upstream that nobody serves.
    Dead,
}

const CLIENTS: [Kind; 8] = [
    Kind::Hello,
    Kind::Hello,
    Kind::Echo,
    Kind::Echo,
    Kind::Chunked,
    Kind::Chunked,
    Kind::Aborted,
    Kind::Dead,
];

/// Stands for an answer that says that there is no record.
const UNRECORDED: u16 = 0;

/// Requests on one connection.
const REQUESTS: usize = 100;

/// Running clients. They end when nobody listens any more.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    responses: Arc<Mutex<Responses>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(addr: SocketAddr) -> Self {
        let (stop, responses) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let clients = CLIENTS.map(|kind| {
            let (stop, responses) = (Arc::clone(&stop), Arc::clone(&responses));
            std::thread::spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    if connection(addr, kind, round, &stop, &responses).is_none() {
                        return;
                    }
                }
            })
        });
        Self { stop, responses, clients: clients.into() }
    }

    /// Answers so far.
    pub(super) fn answered(&self) -> usize {
        self.responses.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Stops, and gives what was noted.
    pub(super) fn end(self) -> Responses {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client that ends");
        }
        std::mem::take(&mut *self.responses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Requests on one connection; none when there can be no other.
fn connection(
    addr: SocketAddr,
    kind: Kind,
    round: usize,
    stop: &AtomicBool,
    responses: &Mutex<Responses>,
) -> Option<()> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let request = request(kind);
    let mut input = Vec::new();
    for sent in 0..REQUESTS {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        if matches!(kind, Kind::Aborted) {
            // A different place each time, in the request or in the answer.
            let place = (round * 7919) % (2 * request.len());
            let (part, back) = (place.min(request.len()), place.saturating_sub(request.len()));
            stream.write_all(&request[..part]).ok()?;
            let _ = stream.read_exact(&mut vec![0; back]);
            std::thread::sleep(Duration::from_millis(2));
            return Some(());
        }
        if stream.write_all(&request).is_err() {
            // Perhaps an answer was given before; it is not whole for us.
            return Some(());
        }
        match response(&mut stream, &mut input) {
            Some((_, UNRECORDED)) => {}
            Some((id, status)) => {
                responses.lock().unwrap_or_else(PoisonError::into_inner).insert(id, status);
            }
            None if sent == 0 => return None,
            None => return Some(()),
        }
    }
    Some(())
}

fn request(kind: Kind) -> Vec<u8> {
    let post = |path: &str, length: usize| {
        let body = "0123456789abcdef".repeat(length / 16);
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    match kind {
        Kind::Hello => "GET /hosted HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        Kind::Echo => post("/echo", 1024),
        Kind::Aborted => post("/aborted", 100 * 1024),
        Kind::Dead => post("/dead", 1024),
        Kind::Chunked => {
            let chunk = format!("1000\r\n{}\r\n", "0123456789abcdef".repeat(256));
            let head = "POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            format!("{head}{}0\r\n\r\n", chunk.repeat(25))
        }
    }
    .into_bytes()
}

/// Reads one answer to its last byte: id and status. None if it does not come whole.
fn response(stream: &mut TcpStream, input: &mut Vec<u8>) -> Option<(String, u16)> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut fields);
        if let httparse::Status::Complete(taken) = head.parse(input).ok()? {
            let field = |name: &str| {
                let found = head.headers.iter().find(|f| f.name.eq_ignore_ascii_case(name));
                found.map(|field| String::from_utf8_lossy(field.value).into_owned())
            };
            let id = field("weir-transaction-id").expect("an id");
            let length: usize = field("content-length").expect("a length").parse().ok()?;
            let status = head.code?;
            while input.len() < taken + length {
                fill(stream, input)?;
            }
            let full = memchr::memmem::find(input, b"urn:weir:problem:journal-full").is_some();
            input.drain(..taken + length);
            return Some((id, if full { UNRECORDED } else { status }));
        }
        fill(stream, input)?;
    }
}

fn fill(stream: &mut TcpStream, input: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 64 * 1024];
    let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
    input.extend_from_slice(&buffer[..count]);
    Some(())
}
