//! Every credential that is sent here, searched for in everything that weir leaves behind.

use super::{ask, wait_for_index};
use crate::harness::{KEYS, SECRET, Server, Signal, Upstream, Weir, files, unix_now};
use base64::Engine as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use std::path::Path;

const KEY: &str = "key/s3cret+one=1";
const QUERY_KEY: &str = "query/s3cret+two=2";
const WRONG: &str = "wrong/s3cret+three=3";
const COOKIE: &str = "cookie-s3cret-four";
const SET_COOKIE: &str = "set-cookie-s3cret-five";
const PASSWORD: &str = "basic-s3cret-six";
const PRIVATE: &str = "private-s3cret-seven";
const PIN: &str = "pin-s3cret-eight";
const UPSTREAM: &str = "upstream-s3cret-nine";

/// A key as `consumers` names it.
fn hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn url(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn start(upstream: &Upstream) -> Server {
    let (key, query) = (hash(KEY), hash(QUERY_KEY));
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlog: {{access: json}}\n\
         tracker: {{enabled: true, mask: {{headers: [x-private], query: [pin]}}}}\n\
         auth:\n  idp: {{jwt: {{algorithms: HS256, key: \"file:secret\", issuer: idp}}}}\n  \
         header: {{api_key: {{header: x-api-key}}}}\n  query: {{api_key: {{query: key}}}}\n\
         consumers: {{acme: {{api_keys: [\"{key}\", \"{query}\"]}}}}\n\
         upstreams:\n  bearer: {{targets: [\"http://{0}\"], auth: {{bearer: \"${{env:UPSTREAM}}\"}}}}\n  \
         dead: {{targets: [\"http://127.0.0.1:1\"], auth: {{basic: {{user: weir, password: \"${{env:UPSTREAM}}\"}}}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{path: /open, proxy: bearer}}\n      \
         - {{path: /dead, proxy: dead}}\n      \
         - {{path: /hosted, reply: {{text: hello}}}}\n      \
         - {{path: /fill, proxy: bearer}}\n      \
         - {{path: /mine, auth: [idp, header, query], proxy: bearer}}\n",
        upstream.addr,
    );
    Weir::new(&config).file("secret", SECRET).env("UPSTREAM", UPSTREAM).start()
}

/// Sends every credential to every place, in every form; gives how many requests were made.
fn send_all(weir: &Server, tokens: &[String]) -> usize {
    let mut headers = vec![
        ("X-Api-Key", KEY.to_owned()),
        ("X-Api-Key", WRONG.to_owned()),
        ("Authorization", format!("Basic {}", base64(&format!("me:{PASSWORD}")))),
        ("Proxy-Authorization", format!("Basic {}", base64(&format!("me:{PASSWORD}")))),
        ("Cookie", format!("session={COOKIE}; other=1")),
        ("X-Private", PRIVATE.to_owned()),
    ];
    headers.extend(tokens.iter().map(|token| ("Authorization", format!("Bearer {token}"))));
    let query_key = url(QUERY_KEY);
    let queries = [
        String::new(),
        format!("?key={query_key}"),
        format!("?a=1&k%65y={query_key}&pin={PIN}"),
        format!("?pin={PIN}&key={}", url(WRONG)),
    ];
    let mut sent = 0;
    for path in ["/open", "/dead", "/hosted", "/mine", "/nowhere"] {
        for query in &queries {
            for (name, value) in &headers {
                for target in [format!("{path}{query}"), format!("http://localhost{path}{query}")] {
                    let mut client = weir.connect();
                    client.send(format!(
                        "POST {target} HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\n\
                         Content-Length: 2\r\n\r\n{{}}"
                    ));
                    client.response();
                    sent += 1;
                }
            }
        }
    }
    // No request at all, but credentials in it.
    for line in ["HTTP/9.9", "HTTP/1.1\r\nbad line"] {
        let mut client = weir.connect();
        client.send(format!(
            "GET /mine?key={query_key} {line}\r\nHost: a\r\nX-Api-Key: {KEY}\r\n\r\n"
        ));
        client.rest();
    }
    sent
}

/// What a zstd frame in a file unpacks to, for all that begin in it.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for start in memchr::memmem::find_iter(bytes, &[0x28, 0xB5, 0x2F, 0xFD]) {
        let decoder = zstd::stream::read::Decoder::with_buffer(&bytes[start..]);
        let mut decoder = decoder.expect("a decoder").single_frame();
        // What is no frame after all fails, and what came before that is searched all the same.
        let _ = std::io::copy(&mut decoder, &mut all);
    }
    all
}

fn look_for(needles: &[(String, String)], bytes: &[u8], place: &str) {
    for (what, needle) in needles {
        let found = memchr::memmem::find(bytes, needle.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(60)..(at + 60).min(bytes.len())];
            panic!("{what} is in {place}: {}", String::from_utf8_lossy(around));
        }
    }
}

fn needles(tokens: &[String], admin: &str) -> Vec<(String, String)> {
    let signature = |token: &String| token.rsplit('.').next().unwrap().to_owned();
    let mut secrets: Vec<String> = tokens.iter().map(signature).collect();
    let others = [
        KEY, QUERY_KEY, WRONG, COOKIE, SET_COOKIE, PASSWORD, PRIVATE, PIN, UPSTREAM, SECRET, admin,
    ];
    secrets.extend(others.map(str::to_owned));
    let pairs = [format!("me:{PASSWORD}"), format!("weir:{UPSTREAM}")];
    let mut needles = Vec::new();
    for secret in secrets.iter().chain(&pairs) {
        let forms = [secret.clone(), base64(secret), url(secret), url(&base64(secret))];
        needles.extend(forms.map(|form| (secret.clone(), form)));
    }
    needles
}

/// The token of the data folder is in the file that says so, and nowhere else.
fn is_the_token_itself(path: &Path) -> bool {
    path.file_name() == Some("admin.token".as_ref())
}

#[test]
fn no_credential_is_left_anywhere() {
    let response = format!(
        "HTTP/1.1 200 OK\r\nSet-Cookie: s={SET_COOKIE}; HttpOnly\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    let upstream = Upstream::responding(response);
    let mut weir = start(&upstream);
    let token = |iss: &str| KEYS.token("HS256", &json!({"iss": iss, "exp": unix_now() + 600}));
    let tokens = [token("idp"), token("somebody")];
    let sent = send_all(&weir, &tokens);
    assert!(upstream.heads().iter().any(|head| head.contains(UPSTREAM)), "it was used");
    // Until some of it is sealed.
    let body = "0123456789abcdef".repeat(4096);
    let mut client = weir.connect();
    let has = |weir: &Server, kind: &str| {
        files(&weir.data()).iter().any(|path| path.extension() == Some(kind.as_ref()))
    };
    while !has(&weir, "meta") {
        assert_eq!(client.post("/fill", &body).status, 200);
    }
    wait_for_index(&weir);
    let admin = std::fs::read_to_string(weir.data().join("admin.token")).expect("a token");
    let needles = needles(&tokens, admin.trim());

    let metrics = weir.connect_admin().get("/metrics").text();
    look_for(&needles, metrics.as_bytes(), "the metrics");
    let page = ask(&weir, "/v1/transactions?limit=1000&q=status:401");
    assert_eq!(page.status, 200, "{}", page.text());
    look_for(&needles, &page.body, "what is found");
    for one in ask(&weir, "/v1/transactions?limit=50&q=status:200").json()["transactions"]
        .as_array()
        .expect("a list")
    {
        let id = one["id"].as_str().expect("an id");
        let shown = ask(&weir, &format!("/v1/transactions/{id}")).text();
        look_for(&needles, shown.as_bytes(), "what is shown");
    }

    weir.signal(Signal::TERM);
    weir.wait();
    let mut unpacked_bytes = 0;
    let log = weir.dir().join("stderr.txt");
    for path in files(&weir.data()).into_iter().chain([log.clone()]) {
        if is_the_token_itself(&path) {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        look_for(&needles, &bytes, &path.display().to_string());
        let unpacked = unpacked(&bytes);
        look_for(&needles, &unpacked, &format!("{}, unpacked", path.display()));
        unpacked_bytes += unpacked.len();
    }
    assert!(unpacked_bytes > 1 << 20, "only {unpacked_bytes} bytes were unpacked");
    let logged = std::fs::read_to_string(log).expect("a log");
    assert!(logged.lines().count() >= sent, "every request is logged");
    assert!(logged.contains("\"status\":401"), "{logged}");
}
