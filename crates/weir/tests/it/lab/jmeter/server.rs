//! A small HTTP server whose answers depend on the request only: what two load generators sent it
//! can be compared by what they got.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
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

/// The end of a cookie. JMeter keeps one of `Max-Age=0` for a millisecond, and then for ever.
const ENDED: &str = "Expires=Sat, 28 Nov 2020 20:00:00 GMT";

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
    /// Requests that came to wait for others.
    together: Mutex<usize>,
    changed: Condvar,
}

impl Seen {
    /// Waits until `number` requests are here. They come in parallel, or never.
    fn wait_for(&self, number: usize) -> bool {
        let mut arrived = self.together.lock().expect("no panic");
        *arrived += 1;
        self.changed.notify_all();
        let all = arrived.div_ceil(number) * number;
        let is_missing = |arrived: &mut usize| *arrived < all;
        let limit = Duration::from_secs(20);
        !self
            .changed
            .wait_timeout_while(arrived, limit, is_missing)
            .expect("no panic")
            .1
            .timed_out()
    }
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
                let _ = write!(text, " {name}={}", without_nonce(value));
            }
        }
        let _ = write!(text, " {}", String::from_utf8_lossy(&self.body));
        text
    }
}

/// `Authorization` without what a client's nonce changes.
fn without_nonce(value: &str) -> String {
    let mut text = value.to_owned();
    for name in ["cnonce", "response"].iter().filter(|_| value.contains("cnonce=")) {
        if let Some(found) = parameter(value, name) {
            text = text.replace(&format!("{name}=\"{found}\""), name);
        }
    }
    text
}

/// A parameter of `Authorization`.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut all = value.split_once(' ')?.1.split(", ");
    let found = all.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
    Some(found.trim_matches('"').to_owned())
}

/// Asks for credentials in one of several ways.
fn signed(request: &Request, kind: &str) -> Vec<u8> {
    let value = request.header("authorization");
    let challenges: &[&str] = match kind {
        "sha256" => {
            &["Digest realm=\"lab\", qop=\"auth\", nonce=\"n1\", algorithm=SHA-256, opaque=\"o\""]
        }
        "md5" => &["Digest realm=\"lab\", nonce=\"n2\""],
        "session" => &["Digest realm=\"lab\", nonce=\"n3\", algorithm=MD5-sess, qop=\"auth\""],
        "body" => &["Digest realm=\"lab\", nonce=\"n4\", qop=\"auth, auth-int\", charset=utf-8"],
        "basic" => &["Basic realm=\"lab\""],
        "both" => &["Basic realm=\"lab\"", "Digest realm=\"lab\", nonce=\"n5\""],
        "unknown" => &["Digest realm=\"lab\", nonce=\"n6\", algorithm=SHA-9"],
        "stale" if value.contains("\"old\"") => {
            &["Digest realm=\"lab\", nonce=\"new\", stale=true"]
        }
        "stale" => &["Digest realm=\"lab\", nonce=\"old\""],
        _ => &["Other x"],
    };
    let is_good = match kind {
        "sha256" => is_sha256_of(request, value),
        "basic" | "both" => !value.is_empty(),
        "stale" => value.contains("\"new\""),
        "md5" | "session" | "body" => value.starts_with("Digest "),
        _ => false,
    };
    if is_good {
        return response(request, 200, "text/plain", &[], b"signed");
    }
    let fields: Vec<String> = challenges.iter().map(|c| format!("WWW-Authenticate: {c}")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    response(request, 401, "text/plain", &fields, b"who is there?")
}

/// Whether the digest is that of one of the users of the tests.
fn is_sha256_of(request: &Request, value: &str) -> bool {
    let hash = |text: &str| {
        let bytes = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let get = |name: &str| parameter(value, name).unwrap_or_default();
    let asked = hash(&format!("{}:{}", request.method, request.target));
    ["us\"e\\r:lab:p?ss", "user:lab:pass"].iter().any(|secret| {
        let (nonce, count, own) = (get("nonce"), get("nc"), get("cnonce"));
        let expected = hash(&format!("{}:{nonce}:{count}:{own}:auth:{asked}", hash(secret)));
        get("response") == expected
    })
}

fn serve(stream: &TcpStream, seen: &Seen) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader) {
        seen.log.lock().expect("no panic").push(request.describe());
        let response = respond(&request, seen);
        let mut out = stream;
        if out.write_all(&response).is_err() || request.header("connection") == "close" {
            return;
        }
    }
}

fn respond(request: &Request, seen: &Seen) -> Vec<u8> {
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
        "/left" => response(request, 302, "", &["Location: /signed/md5?left"], b""),
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
        "/pool" => {
            let image = |number: u8| format!("<img src='/together/3?{number}'>");
            let images: String = (0..6).map(image).collect();
            let page = images + "<iframe src='/rich/frame'></iframe>";
            response(request, 200, "text/html", &[], page.as_bytes())
        }
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
            if let Some(kind) = path.strip_prefix("/crumbs/") {
                return response(request, 200, "text/html", &[], crumbs(kind).as_bytes());
            }
            if let Some(field) = path.strip_prefix("/set/") {
                let field = format!("Set-Cookie: {field}; Path=/");
                return response(request, 200, "text/plain", &[&field], b"set");
            }
            if let Some(name) = path.strip_prefix("/end/") {
                let field = format!("Set-Cookie: {name}=; {ENDED}; Path=/");
                return response(request, 200, "text/plain", &[&field], b"ended");
            }
            if let Some(field) = path.strip_prefix("/set-and-go/") {
                let field = format!("Set-Cookie: {field}; Path=/");
                return response(request, 302, "", &[&field, "Location: /text?gone"], b"");
            }
            if path == "/frame" {
                let page = crumbs("in-frame");
                let fields = ["Set-Cookie: frame=1; Path=/", "Set-Cookie: old=frame; Path=/"];
                return response(request, 200, "text/html", &fields, page.as_bytes());
            }
            if let Some(status) = path.strip_prefix("/status/").and_then(|s| s.parse().ok()) {
                return text(status, &format!("status {status}"));
            }
            if let Some(number) = path.strip_prefix("/together/").and_then(|s| s.parse().ok()) {
                let is_good = seen.wait_for(number);
                let cookie = format!("Set-Cookie: image{}=1; Path=/", &request.target[12..13]);
                let status = if is_good { 200 } else { 503 };
                return response(request, status, "text/plain", &[&cookie], b"together");
            }
            if let Some(kind) = path.strip_prefix("/signed/") {
                return signed(request, kind);
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

/// A page with resources that set cookies.
fn crumbs(kind: &str) -> String {
    let resources: &[&str] = match kind {
        "first" => &["/set/old=first", "/text?a"],
        "last" => &["/text?b", "/set/old=last"],
        "ended-first" => &["/end/old", "/text?c"],
        "ended-last" => &["/text?d", "/end/old"],
        "new" => &["/set/new=1", "/set/more=1", "/set/new=2", "/text?e"],
        "redirect" => &["/set-and-go/hop=1", "/text?f"],
        "in-frame" => &["/set/inner=1", "/set/old=inner", "/text?g"],
        _ => return "<img src='/text?h'><iframe src='/frame'></iframe><img src='/text?i'>".into(),
    };
    resources.iter().map(|resource| format!("<img src='{resource}'>")).collect()
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
        401 => "Unauthorized",
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
