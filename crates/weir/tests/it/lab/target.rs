//! A target whose every answer is decided by a test.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An HTTP/1.1 server with a thread a connection. It counts requests.
pub(super) struct Target {
    pub(super) addr: SocketAddr,
    count: Arc<AtomicU64>,
}

/// What is done with a request.
pub(super) enum Response {
    /// 200 and this text, after a time.
    Text(Duration, String),
    /// This status and text, after a time.
    Status(u16, Duration, String),
    /// Nothing, ever.
    Hang,
}

impl Target {
    /// `answer` is asked with the number of a request, from 0, and its path.
    pub(super) fn start(response: impl Fn(u64, &str) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("it is bound");
        let count = Arc::new(AtomicU64::new(0));
        let (counted, response) = (count.clone(), Arc::new(response));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (count, response) = (counted.clone(), response.clone());
                std::thread::spawn(move || serve(&stream, &count, &*response));
            }
        });
        Self { addr, count }
    }

    /// How many requests it got.
    pub(super) fn requests(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

/// Answers requests without a body until the client leaves.
fn serve(stream: &TcpStream, count: &AtomicU64, response: &dyn Fn(u64, &str) -> Response) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let number = count.fetch_add(1, Ordering::SeqCst);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let response = match response(number, path) {
            Response::Text(after, text) => Response::Status(200, after, text),
            other => other,
        };
        match response {
            Response::Text(..) => {}
            Response::Status(status, after, text) => {
                std::thread::sleep(after);
                let length = text.len();
                let response =
                    format!("HTTP/1.1 {status} Test\r\nContent-Length: {length}\r\n\r\n{text}");
                if { stream }.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
            Response::Hang => loop {
                std::thread::park();
            },
        }
    }
}
