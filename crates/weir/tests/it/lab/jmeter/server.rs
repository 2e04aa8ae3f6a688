//! A small HTTP server whose answers depend on the request only: what two load generators sent it
//! can be compared by what they got.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const STORE: &str = r#"{"x-y": 1, "a b": 2, "n": null, "list": [1, 2, 3, 4], "f": 1.50,
"o": {"p": "a/b", "q": [true, null], "u": "ä"}, "one": [5], "big": 12345678.9, "book": [
{"id": 1, "title": "A", "price": 8.95, "tags": ["x", "y"]}, {"id": 2, "title": "Beta", "price": 12},
{"id": 3, "title": "Gamma", "isbn": "0-1"}]}"#;

const PAGE: &str = "<!DOCTYPE html><html><head><title>T</title></head><body><p class=a>One <b>bold</b>\n\
     text</p><div class=main><p>Two</p><p>Three <a href='/x'>link</a></p><br>end</div><form>\
     <input type=hidden name=token value='tok-1'></form></body></html>";

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><shop><item id=\"1\"><name>A</name>\
     <price>3</price></item><item id=\"2\"><name>B<i>x</i></name><price>12</price></item></shop>";

const RICH: &str = "<html><head><link rel=stylesheet href='/rich/style'><script src='/text?js'></script>\
     </head><body background='/text?bg'><img src='/text?one'><img src=\"/text?one\"><img \
     src='/text?skip'><iframe src='/rich/frame'></iframe><input type=image src='/text?input'>\
     <a href='/text?link'>x</a></body></html>";

/// A running server. Its threads end with the process.
pub(crate) struct Server {
    /// Where it listens on loopback.
    pub(crate) port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Method, target, chosen fields and body of each request, in the order they came.
    log: Mutex<Vec<String>>,
}

impl Server {
    /// Starts one.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Seen::default());
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = shared.clone();
                std::thread::spawn(move || serve(&stream, &seen));
            }
        });
        Self { port, seen }
    }

    /// What came so far, in this order.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.log.lock().expect("no panic"))
    }
}

struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut BufReader<&TcpStream>) -> Option<Self> {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, target, headers, body: Vec::new() };
        let length = request.header("content-length").parse().unwrap_or(0);
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    fn describe(&self) -> String {
        let mut text = format!("{} {}", self.method, self.target);
        for name in [
            "authorization",
            "connection",
            "content-type",
            "cookie",
            "host",
            "if-modified-since",
            "if-none-match",
            "user-agent",
            "x-inner",
            "x-order",
        ] {
            let value = self.header(name);
            if !value.is_empty() {
                let _ = write!(text, " {name}={value}");
            }
        }
        let _ = write!(text, " {}", String::from_utf8_lossy(&self.body));
        text
    }
}

fn serve(stream: &TcpStream, seen: &Seen) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader) {
        seen.log.lock().expect("no panic").push(request.describe());
        let response = respond(&request);
        let mut out = stream;
        if out.write_all(&response).is_err() || request.header("connection") == "close" {
            return;
        }
    }
}

fn respond(request: &Request) -> Vec<u8> {
    let path = request.target.split('?').next().unwrap_or_default();
    let text =
        |status: u16, body: &str| response(request, status, "text/plain", &[], body.as_bytes());
    let json = |fields: &[&str], body: &str| {
        response(request, 200, "application/json", fields, body.as_bytes())
    };
    let has_session = request.header("cookie").contains("session=abc");
    match path {
        "/" => {
            response(request, 302, "", &["Location: /home", "Set-Cookie: seen=1; Path=/"], b"moved")
        }
        "/redirect" => response(request, 303, "", &["Location: /status/200?after"], b""),
        "/home" => text(200, "Welcome"),
        "/text" => text(200, "hello world\nWorld"),
        "/json" => json(&[], r#"{"a":{"b":1},"s":"abc","n":null,"l":[1,2,3]}"#),
        "/store" => json(&[], STORE),
        "/page" => response(request, 200, "text/html; charset=utf-8", &[], PAGE.as_bytes()),
        "/xml" => response(request, 200, "text/xml", &[], XML.as_bytes()),
        "/login" if request.body.starts_with(b"user=user+") => json(
            &["Set-Cookie: session=abc; Path=/"],
            r#"{"token":"tok-1","items":[{"id":1},{"id":2},{"id":3}]}"#,
        ),
        "/items" if has_session => text(200, "item=11;item=22;item=33;"),
        "/echo" => response(request, 200, request.header("content-type"), &[], &request.body),
        // The answer does not depend on the boundary.
        "/parts" => text(200, "parts"),
        "/headers" => text(200, "headers"),
        "/rich" => response(request, 200, "text/html", &[], RICH.as_bytes()),
        "/rich/frame" => response(request, 200, "text/html", &[], b"<img src='/text?in-frame'>"),
        "/rich/style" => response(
            request,
            200,
            "text/css",
            &[],
            b"@import '/text?in-style'; a { background: url('/text?no') }",
        ),
        "/cookie/a" => response(
            request,
            200,
            "text/plain",
            &["Set-Cookie: a=1; Path=/", "Set-Cookie: b=2"],
            b"set",
        ),
        "/cached/etag" => cached(request, &["ETag: \"1\""]),
        "/cached/date" => cached(request, &["Last-Modified: Sat, 28 Nov 2020 20:00:00 GMT"]),
        "/cached/age" => cached(request, &["ETag: \"2\"", "Cache-Control: max-age=60"]),
        "/item/404" => text(404, "no such item"),
        path => {
            if let Some(status) = path.strip_prefix("/status/").and_then(|s| s.parse().ok()) {
                return text(status, &format!("status {status}"));
            }
            if let Some(to) = path.strip_prefix("/moved/to/") {
                return response(request, 302, "", &[&format!("Location: ../{to}?x")], b"");
            }
            if let Some(status) = path.strip_prefix("/moved/").and_then(|s| s.parse().ok()) {
                return response(request, status, "", &["Location: /text?moved"], b"");
            }
            if let Some(millis) = path.strip_prefix("/slow/").and_then(|s| s.parse().ok()) {
                std::thread::sleep(Duration::from_millis(millis));
                return text(200, "slow");
            }
            match path.strip_prefix("/item/") {
                Some(item) if has_session => text(200, &format!("item {item}")),
                _ => text(403, "forbidden"),
            }
        }
    }
}

/// 304 for a request with validators.
fn cached(request: &Request, fields: &[&str]) -> Vec<u8> {
    let is_known = !request.header("if-none-match").is_empty()
        || !request.header("if-modified-since").is_empty();
    response(request, if is_known { 304 } else { 200 }, "text/plain", fields, b"cached")
}

fn response(
    request: &Request,
    status: u16,
    content_type: &str,
    fields: &[&str],
    body: &[u8],
) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        303 => "See Other",
        304 => "Not Modified",
        403 => "Forbidden",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Other",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    if !content_type.is_empty() {
        let _ = write!(head, "Content-Type: {content_type}\r\n");
    }
    for field in fields {
        let _ = write!(head, "{field}\r\n");
    }
    let none = matches!(status, 204 | 304);
    if !none {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    let mut out = head.into_bytes();
    if !none && request.method != "HEAD" {
        out.extend_from_slice(body);
    }
    out
}
