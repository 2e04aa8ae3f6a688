//! Properties of path normalisation and routing that hold for any text.
//!
//! An input is lines: `= HOST BASE` starts an API, `+ METHOD PATTERN` adds a route to it (`*` for
//! every method), `? METHOD HOST PATH` asks. Other lines are normalised as paths.

use std::cell::RefCell;
use weir_config::{Config, PathPattern, Segment};
use weir_gateway::route::{Found, Router};
use weir_http::path;

/// Most APIs and routes of each that an input may have.
const APIS: usize = 3;
const ROUTES: usize = 6;

thread_local! {
    /// A configuration whose APIs and routes are overwritten for every input.
    static CONFIG: RefCell<Config> = RefCell::new(blank());
}

fn blank() -> Config {
    let mut text = String::from("version: 1\nlisten: [\"127.0.0.1:0\"]\napis:\n");
    for api in 0..APIS {
        text.push_str(&format!("  a{api}:\n    base: /{api}\n    routes:\n"));
        for route in 0..ROUTES {
            text.push_str(&format!("      - {{get: /r{route}, reply: {{text: x}}}}\n"));
        }
    }
    match weir_gateway::configuration::load_text("weir.yaml", &text) {
        Ok(loaded) => loaded.config,
        Err(findings) => panic!("{}", findings.render(false)),
    }
}

/// Checks every property on the lines of `bytes`.
pub fn paths(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    CONFIG.with_borrow_mut(|config| {
        let questions = read(config, text);
        let router = Router::new(config);
        for (method, host, path) in questions {
            check_normal(path);
            if let Ok(normal) = path::normalise(path) {
                check_found(config, &router, method, host, &normal.path);
            }
        }
    });
}

/// Overwrites the configuration; gives the questions.
fn read<'a>(config: &mut Config, text: &'a str) -> Vec<(&'a str, &'a str, &'a str)> {
    for api in &mut config.apis {
        // A host that nobody asks for.
        api.hosts = vec!["-".to_owned()];
        for route in &mut api.routes {
            route.path = PathPattern {
                text: String::new(),
                segments: vec![Segment::Literal("/".to_owned())],
                wildcard: false,
            };
        }
    }
    let mut questions = Vec::new();
    let (mut apis, mut routes) = (0, 0);
    for line in text.split('\n') {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("="), Some(host), Some(base), None) if apis < APIS => {
                let hosts = if host == "*" { Vec::new() } else { vec![host.to_owned()] };
                let base = literal_base(base);
                let taken = config.apis[..apis].iter().any(|a| a.hosts == hosts && a.base == base);
                if !taken && host != "-" {
                    (config.apis[apis].hosts, config.apis[apis].base) = (hosts, base);
                    (apis, routes) = (apis + 1, 0);
                }
            }
            (Some("+"), Some(method), Some(path), None) if apis > 0 && routes < ROUTES => {
                let route = &mut config.apis[apis - 1].routes[routes];
                route.methods = if method == "*" { Vec::new() } else { vec![method.to_owned()] };
                route.path = pattern(path);
                routes += 1;
            }
            (Some("?"), Some(method), Some(host), Some(path)) => {
                questions.push((method, host, path));
            }
            _ => check_normal(line),
        }
    }
    questions
}

/// A base as configuration gives it: decoded, without empty segments.
fn literal_base(text: &str) -> String {
    let segments = text.split('/').filter(|s| !s.is_empty()).map(path::decode);
    let base: String =
        segments.filter(|s| !s.contains('/')).map(|segment| format!("/{segment}")).collect();
    if base.is_empty() { "/".to_owned() } else { base }
}

fn pattern(text: &str) -> PathPattern {
    let wildcard = text.ends_with("/*");
    let segments = text.strip_suffix("/*").unwrap_or(text).split('/').filter(|s| !s.is_empty());
    let segments = segments.map(|s| match s.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
        Some(name) => Segment::Template(name.to_owned()),
        None => Segment::Literal(path::decode(s).into_owned()),
    });
    PathPattern { text: text.to_owned(), segments: segments.collect(), wildcard }
}

/// What normalisation gives is normal, and nothing but the spelling has changed.
fn check_normal(text: &str) {
    let mut encoded = String::from("/");
    path::encode(text, &mut encoded);
    assert_eq!(path::decode(&encoded[1..]), text, "encoded and decoded again");
    for (name, value) in path::query_pairs(text) {
        assert!(name.len() + value.len() <= 3 * text.len());
    }

    let Ok(path::Normal { path: normal, .. }) = path::normalise(text) else { return };
    assert!(normal.starts_with('/'));
    let again = path::normalise(&normal).map(|again| again.path);
    assert_eq!(again.as_deref(), Ok(&*normal), "normalised twice");
    assert!(path::segments(&normal).all(|s| s != "." && s != ".."), "{text:?}: {normal:?}");
    for (at, _) in normal.match_indices('%') {
        let digits = &normal.as_bytes()[at + 1..at + 3];
        let byte = u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16);
        let byte = byte.expect("an escape");
        assert!(!digits.iter().any(u8::is_ascii_lowercase), "{normal:?}");
        assert!(byte != 0 && !is_unreserved(byte), "{normal:?}");
    }
    // What the path means, found by a plain walk over its decoded segments.
    let mut meant: Vec<Vec<u8>> = Vec::new();
    let mut ends_in_dots = false;
    for segment in text[1..].split('/') {
        let decoded: Vec<u8> = percent_decoded(segment);
        ends_in_dots = decoded == b"." || decoded == b"..";
        match decoded.as_slice() {
            b"." => {}
            b".." => assert!(meant.pop().is_some(), "{text:?} climbs above the root"),
            _ => meant.push(decoded),
        }
    }
    if ends_in_dots {
        meant.push(Vec::new());
    }
    let got: Vec<Vec<u8>> = normal[1..].split('/').map(percent_decoded).collect();
    assert_eq!(got, meant, "{text:?}: {normal:?}");
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escape = (first == b'%').then(|| std::str::from_utf8(&tail[..2]).expect("digits"));
        bytes.push(escape.map_or(first, |d| u8::from_str_radix(d, 16).expect("digits")));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    bytes
}

/// The router finds what comparing the path with every route finds.
fn check_found(config: &Config, router: &Router, method: &str, host: &str, path: &str) {
    let decoded: Vec<_> = path::segments(path).map(path::decode).collect();
    let base_of = |api: usize| -> Vec<&str> { path::segments(&config.apis[api].base).collect() };
    let api = (0..APIS)
        .filter(|&api| {
            let base = base_of(api);
            host_rank(config, api, host).is_some()
                && decoded.len() >= base.len()
                && base.iter().zip(&decoded).all(|(base, have)| base == have)
        })
        .max_by_key(|&api| (base_of(api).len(), host_rank(config, api, host)));
    let Some(api) = api else {
        return assert_eq!(router.find(host, path, method), Found::NoApi);
    };
    let below = &decoded[base_of(api).len()..];
    let routes = &config.apis[api].routes;
    let fitting = || (0..ROUTES).filter(|&r| fits(&routes[r].path, below));
    let best = fitting()
        .filter_map(|r| Some((rank(&routes[r].path), admits(&routes[r].methods, method)?, r)))
        .min();
    match router.find(host, path, method) {
        Found::Route { api: found, route } => {
            assert_eq!(Some((found, route)), best.map(|(_, _, route)| (api, route)));
        }
        Found::OtherMethods { api: found, allow } => {
            assert_eq!((found, best), (api, None));
            for method in fitting().flat_map(|r| &routes[r].methods) {
                assert!(allow.contains(method), "{method} in {allow:?}");
            }
        }
        Found::NoRoute { api: found } => {
            assert_eq!((found, fitting().next()), (api, None));
        }
        Found::NoApi => panic!("{path} is under the base of API {api}"),
    }
}

/// How specific the host of an API is, if it answers to `host`.
fn host_rank(config: &Config, api: usize, host: &str) -> Option<usize> {
    let hosts = &config.apis[api].hosts;
    let Some(own) = hosts.first() else { return Some(0) };
    match own.strip_prefix('*') {
        Some(suffix) => {
            (host.len() > suffix.len() && host.ends_with(suffix)).then_some(1 + suffix.len())
        }
        None => (own == host).then_some(usize::MAX),
    }
}

fn fits(pattern: &PathPattern, have: &[std::borrow::Cow<'_, str>]) -> bool {
    let wanted = &pattern.segments;
    let long_enough = have.len() >= wanted.len();
    let all = wanted.iter().zip(have).all(|(want, have)| match want {
        Segment::Literal(text) => text == have,
        Segment::Template(_) => !have.is_empty(),
    });
    all && long_enough && (pattern.wildcard || have.len() == wanted.len())
}

/// Literal before template before wildcard, segment by segment.
fn rank(pattern: &PathPattern) -> Vec<u8> {
    let mut rank: Vec<u8> =
        pattern.segments.iter().map(|s| u8::from(matches!(s, Segment::Template(_)))).collect();
    rank.extend(pattern.wildcard.then_some(2));
    rank
}

/// Whether it admits the method: 0 when it names it, 1 when GET stands for HEAD, 2 when it is for
/// every method.
fn admits(methods: &[String], method: &str) -> Option<u8> {
    let names = |method: &str| methods.iter().any(|m| m == method);
    match method {
        _ if names(method) => Some(0),
        "HEAD" if names("GET") => Some(1),
        _ => methods.is_empty().then_some(2),
    }
}
