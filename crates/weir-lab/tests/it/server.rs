//! A server with a behaviour for each path, which counts its requests.
//!
//! | path | response |
//! |---|---|
//! | `/` | 200, `hello` |
//! | `/status/503` | the status |
//! | `/delay` | after a random time from 1 to 100 ms |
//! | `/delay/MS` | after the time |
//! | `/queue/MS` | after the time, one request at a time |
//! | `/size/N` | N bytes, in several writes; `/chunked/N` in chunks, `/until-close/N` until it closes |
//! | `/echo` | the body of the request |
//! | `/close`, `/reset`, `/hang`, `/garbage`, `/half` | no response, in several ways |
//! | `/last` | 200 and `Connection: close` |
//! | `/redirect/N` | redirects N times |
//! | `/gzip` | `hello`, encoded |
//! | `/login`, `/private` | sets a cookie; 401 without it |
//! | `/json` | `{"id":17,"list":["a","b"]}` |
//! | `/early` | 103, then 200 |
//!
//! A stopped server neither reads nor writes.

use flate2::Compression;
use flate2::read::GzEncoder;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use weir_lab::program::Origin;
use weir_wire::{BodyDecoder, HeadLimits, RequestHead, Scan};

/// A running server, ended on drop.
pub(crate) struct Server {
    addr: SocketAddr,
    counts: Arc<Counts>,
    _end: oneshot::Sender<()>,
}

/// Counts of the server.
#[derive(Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    connections: AtomicU64,
    /// Bytes received and sent.
    received: AtomicU64,
    sent: AtomicU64,
    /// Time of each request of `/delay`, from its first byte to the last byte of the response.
    times: Mutex<Vec<Duration>>,
    targets: Mutex<Vec<String>>,
    stopped: AtomicBool,
    /// The request in progress of `/queue`.
    queue: tokio::sync::Mutex<()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// With TLS, if `tls` is an acceptor.
    pub(crate) fn start_with(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let counts = Arc::<Counts>::default();
        let (end, ended) = oneshot::channel::<()>();
        let seen = counts.clone();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, seen, tls) => {}
                    _ = ended => {}
                }
            });
        });
        Self { addr, counts, _end: end }
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin { tls: false, host: self.addr.ip().to_string(), port: self.addr.port() }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn received(&self) -> u64 {
        self.counts.received.load(Ordering::SeqCst)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::SeqCst)
    }

    /// Times of `count` requests of `/delay`, sorted. The time of the last one is added shortly after
    /// its response.
    pub(crate) fn times(&self, count: usize) -> Vec<Duration> {
        let timeout = Instant::now() + Duration::from_secs(10);
        loop {
            let mut times = self.counts.times.lock().unwrap().clone();
            if times.len() >= count || Instant::now() > timeout {
                times.sort();
                return times;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Requested targets, in order.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.counts.targets.lock().unwrap().clone()
    }

    /// Stops the server for `length`, after `wait`.
    pub(crate) fn stop_after(&self, wait: Duration, length: Duration) {
        let counts = self.counts.clone();
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            counts.stopped.store(true, Ordering::SeqCst);
            std::thread::sleep(length);
            counts.stopped.store(false, Ordering::SeqCst);
        });
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    counts: Arc<Counts>,
    tls: Option<tokio_rustls::TlsAcceptor>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        counts.connections.fetch_add(1, Ordering::SeqCst);
        let (counts, tls) = (counts.clone(), tls.clone());
        tokio::spawn(async move {
            match tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = serve(stream, &counts).await;
                    }
                }
                None => {
                    let _ = serve(stream, &counts).await;
                }
            }
        });
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    counts: &Counts,
) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut random = fastrand::Rng::new();
    loop {
        let mut head = RequestHead::default();
        let mut scan = Scan::new();
        let length = loop {
            while counts.stopped.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            match head.parse(&input, &mut scan, &HeadLimits::default()) {
                Ok(Some(length)) => break length,
                Ok(None) => {}
                // TLS, most likely.
                Err(_) => return Ok(()),
            }
            if read(&mut stream, &mut input, counts).await? == 0 {
                return Ok(());
            }
        };
        let began = Instant::now();
        counts.requests.fetch_add(1, Ordering::SeqCst);
        counts.targets.lock().unwrap().push(head.target().to_owned());
        input.drain(..length);
        let mut decoder = BodyDecoder::new(head.framing);
        let mut body = Vec::new();
        while !decoder.is_done() {
            let found = decoder.decode(&input).unwrap();
            body.extend_from_slice(&input[found.data]);
            input.drain(..found.consumed);
            if found.consumed == 0 && read(&mut stream, &mut input, counts).await? == 0 {
                return Ok(());
            }
        }
        if !answer(&mut stream, &head, &body, counts, &mut random).await? {
            return Ok(());
        }
        if head.path() == "/delay" {
            counts.times.lock().unwrap().push(began.elapsed());
        }
    }
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut Vec<u8>,
    counts: &Counts,
) -> std::io::Result<usize> {
    let read = stream.read_buf(input).await?;
    counts.received.fetch_add(read as u64, Ordering::SeqCst);
    Ok(read)
}

/// Answers; whether the connection goes on.
async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    head: &RequestHead,
    body: &[u8],
    counts: &Counts,
    random: &mut fastrand::Rng,
) -> std::io::Result<bool> {
    let mut parts = head.path()[1..].split('/');
    let (name, argument) = (parts.next().unwrap(), parts.next().unwrap_or_default());
    let number = || argument.parse::<u64>().unwrap();
    let plain = |status: u16, fields: &str, body: &[u8]| {
        let length = body.len();
        let mut text =
            format!("HTTP/1.1 {status} Said So\r\ncontent-type: text/plain\r\n{fields}content-length: {length}\r\n\r\n")
                .into_bytes();
        text.extend_from_slice(body);
        text
    };
    let (text, goes_on) = match name {
        "" => (plain(200, "", b"hello"), true),
        "status" => (plain(number() as u16, "", b"so it is"), true),
        "delay" => {
            let millis = if argument.is_empty() { random.u64(1..=100) } else { number() };
            tokio::time::sleep(Duration::from_millis(millis)).await;
            (plain(200, "", b"late"), true)
        }
        "queue" => {
            let _turn = counts.queue.lock().await;
            tokio::time::sleep(Duration::from_millis(number())).await;
            (plain(200, "", b"served"), true)
        }
        "echo" => (plain(200, "", body), true),
        "last" => (plain(200, "connection: close\r\n", b"last"), false),
        "garbage" => (b"HTTP/1.1 oops\r\n\r\n".to_vec(), false),
        "half" => (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec(), false),
        "close" => (Vec::new(), false),
        "hang" => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            (Vec::new(), false)
        }
        "redirect" => match number() {
            0 => (plain(200, "", b"arrived"), true),
            left => (plain(302, &format!("location: {}\r\n", left - 1), b"moved"), true),
        },
        "gzip" => {
            let mut encoded = Vec::new();
            GzEncoder::new(&b"hello"[..], Compression::fast()).read_to_end(&mut encoded)?;
            (plain(200, "content-encoding: gzip\r\n", &encoded), true)
        }
        "login" => (plain(200, "set-cookie: session=17; Path=/\r\n", b"in"), true),
        "private" => match head.headers.get("cookie") {
            Some(b"session=17") => (plain(200, "", b"secret"), true),
            _ => (plain(401, "", b"who?"), true),
        },
        "fresh" => (plain(200, "cache-control: max-age=60\r\n", b"kept"), true),
        "json" => (plain(200, "", br#"{"id":17,"list":["a","b"]}"#), true),
        "early" => {
            let mut text = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_vec();
            text.extend_from_slice(&plain(200, "", b"hello"));
            (text, true)
        }
        "size" => (plain(200, "", &vec![b'x'; number() as usize]), true),
        "chunked" => {
            let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for chunk in vec![b'x'; number() as usize].chunks(700) {
                weir_wire::encode::chunk(&mut text, chunk);
            }
            text.extend_from_slice(weir_wire::encode::LAST_CHUNK);
            (text, true)
        }
        "until-close" => {
            let mut text = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            text.resize(text.len() + number() as usize, b'x');
            (text, false)
        }
        other => panic!("{other} is no path of this server"),
    };
    for part in text.chunks(10_000) {
        stream.write_all(part).await?;
        if text.len() > 10_000 {
            tokio::task::yield_now().await;
        }
    }
    counts.sent.fetch_add(text.len() as u64, Ordering::SeqCst);
    if !goes_on {
        stream.shutdown().await?;
    }
    Ok(goes_on)
}
