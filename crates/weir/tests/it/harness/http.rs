//! A client that sends exactly the bytes it is given and reads one response at a time.
//!
//! It shares no code with what it tests beyond httparse, and reads bodies its own way.

use super::process::PATIENCE;
use super::tls::Io;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub(crate) struct Client {
    stream: Io,
    input: Vec<u8>,
}

/// Sends on a client's connection while that is reading.
pub(crate) struct Sender(TcpStream);

impl Sender {
    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The server has closed the connection.
    pub(crate) fn send(&self, bytes: &[u8]) -> std::io::Result<()> {
        (&self.0).write_all(bytes)
    }
}

/// One response.
#[derive(Debug)]
pub(crate) struct Response {
    /// Status code.
    pub(crate) status: u16,
    /// Fields as they came.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, decoded.
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The first field of this name, in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }
}

impl Client {
    /// Connects.
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("a connection")
    }

    /// Connects, if something listens there.
    pub(crate) fn try_connect(addr: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(addr).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Some(Self { stream: Io::Plain(stream), input: Vec::new() })
    }

    /// Connects and shakes hands for `name`, trusting these certificates (in PEM) and no others.
    /// `front` goes before the handshake: a PROXY protocol header, or nothing.
    pub(crate) fn connect_tls(
        addr: SocketAddr,
        front: &[u8],
        name: &str,
        trusted: &[&str],
    ) -> std::io::Result<Self> {
        let mut client = Self::connect(addr);
        client.send(front);
        let Io::Plain(tcp) = client.stream else { unreachable!("it has just been connected") };
        Ok(Self { stream: Io::tls(tcp, name, trusted)?, input: Vec::new() })
    }

    /// The server's certificate (DER), over TLS.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.stream.certificate().expect("a certificate")
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The server may have closed already; what it answered is still to be read.
        let _ = self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush());
    }

    /// Sends bytes; `false` when the server has closed.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// A second handle, to send from another thread.
    pub(crate) fn sender(&self) -> Sender {
        Sender(self.stream.try_clone().expect("a second handle"))
    }

    /// Tells the server that nothing more will come.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown();
    }

    /// Breaks the connection, as a process does that is killed with bytes unread.
    pub(crate) fn reset(self) {
        let Io::Plain(tcp) = &self.stream else { panic!("not over TLS") };
        socket2::SockRef::from(tcp).set_linger(Some(Duration::ZERO)).expect("it is open");
    }

    /// GET with Host and nothing else.
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    /// The same; `None` when the server closes without a byte of an answer.
    pub(crate) fn try_get(&mut self, path: &str) -> Option<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.try_response()
    }

    /// Reads the next final response; none if the connection ends before its first byte.
    pub(crate) fn try_response(&mut self) -> Option<Response> {
        if self.input.is_empty() && !self.fill() { None } else { Some(self.response()) }
    }

    /// POST of JSON.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Response {
        self.request("POST", path, &[("content-type", "application/json")], body)
    }

    /// A request with Host, these headers and a body with its length.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.send(text + "\r\n" + body);
        if method == "HEAD" { self.response_to_head() } else { self.response() }
    }

    /// Reads the next final response.
    pub(crate) fn response(&mut self) -> Response {
        loop {
            let response = self.next(true);
            if response.status >= 200 {
                return response;
            }
        }
    }

    /// Reads the next response, interim ones included.
    pub(crate) fn any_response(&mut self) -> Response {
        self.next(true)
    }

    /// Reads the response to a HEAD.
    pub(crate) fn response_to_head(&mut self) -> Response {
        self.next(false)
    }

    /// Reads one chunk of a body; the last one is empty.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let size = self.line();
        let size = usize::from_str_radix(&size, 16).expect("a chunk size");
        let chunk = self.take(size);
        assert_eq!(self.take(2), b"\r\n");
        chunk
    }

    /// Reads so many bytes of a body without keeping them; gives how many came.
    pub(crate) fn rest_of(&mut self, length: usize) -> usize {
        let mut read = 0;
        while read < length && (!self.input.is_empty() || self.fill()) {
            read += std::mem::take(&mut self.input).len();
        }
        read
    }

    /// Whether the server closes without sending anything more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.input.is_empty() && !self.fill()
    }

    /// Everything until the server closes.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        while self.fill() {}
        self.input
    }

    /// Everything until the connection ends, and whether it was reset rather than closed.
    pub(crate) fn rest_or_reset(mut self) -> (Vec<u8>, bool) {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return (self.input, false),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return (self.input, true);
                }
                Err(error) => panic!("{error} while reading to the end"),
            }
        }
    }

    fn next(&mut self, body: bool) -> Response {
        let mut response = self.head();
        let bodiless = !body || response.status < 200 || matches!(response.status, 204 | 304);
        if !bodiless {
            response.body = self.body(&response);
        }
        response
    }

    fn head(&mut self) -> Response {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 128];
            let mut parsed = httparse::Response::new(&mut fields);
            match parsed.parse(&self.input) {
                Ok(httparse::Status::Complete(taken)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let response = Response {
                        status: parsed.code.unwrap_or(0),
                        headers: (parsed.headers.iter())
                            .map(|field| (field.name.to_owned(), text(field.value)))
                            .collect(),
                        body: Vec::new(),
                    };
                    self.input.drain(..taken);
                    return response;
                }
                Ok(httparse::Status::Partial) => {
                    let so_far = String::from_utf8_lossy(&self.input).into_owned();
                    assert!(self.fill(), "closed before a response, after {so_far:?}");
                }
                Err(error) => {
                    panic!("{error} in {:?}", String::from_utf8_lossy(&self.input))
                }
            }
        }
    }

    fn body(&mut self, response: &Response) -> Vec<u8> {
        if response.header("transfer-encoding").is_some_and(|v| v == "chunked") {
            return self.chunks();
        }
        if let Some(length) = response.header("content-length") {
            let length = length.parse().expect("a number as Content-Length");
            return self.take(length);
        }
        while self.fill() {}
        std::mem::take(&mut self.input)
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).expect("a chunk size");
            if size == 0 {
                while !self.line().is_empty() {}
                return body;
            }
            body.extend(self.take(size));
            assert_eq!(self.take(2), b"\r\n");
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line = first(&mut self.input, end + 2);
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(self.fill(), "closed inside a line");
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.input.len() < length {
            assert!(self.fill(), "closed after {} of {length} bytes", self.input.len());
        }
        first(&mut self.input, length)
    }

    /// Reads once; `false` at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(read) => {
                self.input.extend_from_slice(&buffer[..read]);
                true
            }
            // A read with a timeout ends so when the process of the tests was stopped and continues.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => self.fill(),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error} while reading a response"),
        }
    }
}

/// Takes the first bytes of an input, of which there are so many.
pub(super) fn first(input: &mut Vec<u8>, count: usize) -> Vec<u8> {
    // `drain(..count).collect()` would go byte by byte in a debug build: a second for 20 MiB.
    let rest = input.split_off(count);
    std::mem::replace(input, rest)
}
