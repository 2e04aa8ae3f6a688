//! Cross-origin resource sharing as the Fetch standard defines it
//! (<https://fetch.spec.whatwg.org/#http-cors-protocol>).
//!
//! weir only declares which origins may read a response; browsers enforce it. Requests of other
//! origins are therefore served, without the headers that permit scripts to read the response.

use weir_config::{Cors, Origins};
use weir_wire::{Headers, Known};

/// Maximum length of `Access-Control-Request-Headers` that is returned in the response.
const MAX_REQUESTED_BYTES: usize = 1024;

/// Whether a request is a preflight: OPTIONS with `Origin` and `Access-Control-Request-Method`.
pub fn is_preflight(method: &str, request: &Headers) -> bool {
    method == "OPTIONS"
        && request.known(Known::Origin).is_some()
        && request.known(Known::AccessControlRequestMethod).is_some()
}

/// Writes the headers of the response to a preflight (status 204, no body) into `out`.
///
/// `methods` are those of the matched path, in upper case; empty: every method, and the response
/// names the requested one. An origin that is not allowed receives none of the permissions.
pub fn preflight<'m, M>(cors: &Cors, request: &Headers, methods: M, out: &mut Headers)
where
    M: IntoIterator<Item = &'m str>,
{
    add_vary(out, "access-control-request-method");
    add_vary(out, "access-control-request-headers");
    if !allow_origin(cors, request, out) {
        return;
    }
    let methods = if cors.methods.is_empty() {
        join(methods)
    } else {
        join(cors.methods.iter().map(String::as_str))
    };
    if !methods.is_empty() {
        out.set("access-control-allow-methods", &methods);
    } else if let Some(requested) =
        request.known(Known::AccessControlRequestMethod).filter(|m| is_token(m))
    {
        out.set("access-control-allow-methods", requested);
    }
    if !cors.headers.is_empty() {
        let headers = join(cors.headers.iter().map(String::as_str));
        out.set("access-control-allow-headers", &headers);
    } else if let Some(requested) =
        request.known(Known::AccessControlRequestHeaders).filter(|h| is_list(h))
    {
        // Listed one by one instead of `*`, which does not cover Authorization.
        out.set("access-control-allow-headers", requested);
    }
    let age = cors.max_age.as_secs();
    out.set("access-control-max-age", itoa::Buffer::new().format(age).as_bytes());
}

/// Adds the headers that permit the requesting origin to read a response. They replace CORS headers
/// of the handler: browsers reject duplicates.
pub fn respond(cors: &Cors, request: &Headers, out: &mut Headers) {
    let is_cors = |name: &str| {
        name.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("access-control-"))
    };
    if out.iter().any(|(_, name, _)| is_cors(name)) {
        out.retain(|_, name, _| !is_cors(name));
    }
    if allow_origin(cors, request, out) && !cors.expose.is_empty() {
        let expose = join(cors.expose.iter().map(String::as_str));
        out.set("access-control-expose-headers", &expose);
    }
}

/// Adds a name to `Vary` unless the name, or `*`, is present.
pub fn add_vary(headers: &mut Headers, name: &str) {
    let listed = headers.known_all(Known::Vary).any(|value| {
        value
            .split(|&b| b == b',')
            .map(<[u8]>::trim_ascii)
            .any(|element| element == b"*" || element.eq_ignore_ascii_case(name.as_bytes()))
    });
    if !listed {
        headers.push("vary", name.as_bytes());
    }
}

/// Whether the origin of the request is allowed; sets `Access-Control-Allow-Origin` and `Vary`.
fn allow_origin(cors: &Cors, request: &Headers, out: &mut Headers) -> bool {
    match &cors.origins {
        Origins::Any => {
            if request.known(Known::Origin).is_none() {
                return false;
            }
            // Never with credentials: every page could then act with those of its visitor.
            out.set("access-control-allow-origin", b"*");
            true
        }
        Origins::List(origins) => {
            add_vary(out, "origin");
            let mut sent = request.known_all(Known::Origin);
            let (Some(origin), None) = (sent.next(), sent.next()) else { return false };
            // Exact comparison, as in the standard; `null` is allowed only if configured.
            if !origins.iter().any(|admitted| admitted.as_bytes() == origin) {
                return false;
            }
            out.set("access-control-allow-origin", origin);
            if cors.credentials {
                out.set("access-control-allow-credentials", b"true");
            }
            true
        }
    }
}

fn join<'a>(items: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(item.as_bytes());
    }
    out
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

fn is_list(text: &[u8]) -> bool {
    text.len() <= MAX_REQUESTED_BYTES
        && text.split(|&b| b == b',').all(|element| is_token(element.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cors(origins: Origins) -> Cors {
        Cors {
            origins,
            methods: vec![],
            headers: vec![],
            expose: vec!["etag".into(), "x-total".into()],
            credentials: true,
            max_age: Duration::from_secs(600),
        }
    }

    fn app() -> Cors {
        cors(Origins::List(vec!["https://app.example".into()]))
    }

    fn asking(origin: &str) -> Headers {
        let mut headers = Headers::new();
        headers.push("Origin", origin.as_bytes());
        headers.push("Access-Control-Request-Method", b"PUT");
        headers.push("Access-Control-Request-Headers", b"authorization,x-a");
        headers
    }

    fn answer(cors: &Cors, request: &Headers, methods: &[&str]) -> Headers {
        let mut out = Headers::new();
        preflight(cors, request, methods.iter().copied(), &mut out);
        out
    }

    fn text<'h>(headers: &'h Headers, name: &'h str) -> Option<&'h str> {
        headers.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    #[test]
    fn a_preflight_is_options_with_origin_and_method() {
        assert!(is_preflight("OPTIONS", &asking("https://a")));
        assert!(!is_preflight("GET", &asking("https://a")));
        let mut plain = Headers::new();
        assert!(!is_preflight("OPTIONS", &plain));
        plain.push("origin", b"https://a");
        assert!(!is_preflight("OPTIONS", &plain));
    }

    #[test]
    fn a_listed_origin_is_answered_with_everything() {
        let out = answer(&app(), &asking("https://app.example"), &["GET", "PUT"]);
        assert_eq!(text(&out, "access-control-allow-origin"), Some("https://app.example"));
        assert_eq!(text(&out, "access-control-allow-credentials"), Some("true"));
        assert_eq!(text(&out, "access-control-allow-methods"), Some("GET, PUT"));
        assert_eq!(text(&out, "access-control-allow-headers"), Some("authorization,x-a"));
        assert_eq!(text(&out, "access-control-max-age"), Some("600"));
        let vary: Vec<_> = out.get_all("vary").collect();
        assert_eq!(
            vary,
            [&b"access-control-request-method"[..], b"access-control-request-headers", b"origin"]
        );
    }

    #[test]
    fn another_origin_gets_no_permission() {
        for origin in
            ["https://app.example.evil", "http://app.example", "https://APP.example", "null", ""]
        {
            let out = answer(&app(), &asking(origin), &["GET"]);
            assert!(out.iter().all(|(_, name, _)| name == "vary"), "{origin}");
        }
        let mut twice = asking("https://app.example");
        twice.push("origin", b"https://evil.example");
        assert_eq!(text(&answer(&app(), &twice, &[]), "access-control-allow-origin"), None);
    }

    #[test]
    fn any_origin_never_comes_with_credentials() {
        let out = answer(&cors(Origins::Any), &asking("null"), &["GET"]);
        assert_eq!(text(&out, "access-control-allow-origin"), Some("*"));
        assert_eq!(text(&out, "access-control-allow-credentials"), None);
    }

    #[test]
    fn written_methods_and_headers_win_and_any_method_is_the_one_asked_for() {
        let mut written = app();
        written.methods = vec!["POST".into()];
        written.headers = vec!["x-b".into()];
        let out = answer(&written, &asking("https://app.example"), &["GET"]);
        assert_eq!(text(&out, "access-control-allow-methods"), Some("POST"));
        assert_eq!(text(&out, "access-control-allow-headers"), Some("x-b"));
        let out = answer(&app(), &asking("https://app.example"), &[]);
        assert_eq!(text(&out, "access-control-allow-methods"), Some("PUT"));
    }

    #[test]
    fn hostile_requests_are_not_echoed() {
        let mut request = Headers::new();
        request.push("origin", b"https://app.example");
        request.push("access-control-request-method", b"GET, PUT");
        request.push("access-control-request-headers", b"a b");
        let out = answer(&app(), &request, &[]);
        assert_eq!(text(&out, "access-control-allow-methods"), None);
        assert_eq!(text(&out, "access-control-allow-headers"), None);
        request.set("access-control-request-headers", "a,".repeat(600).as_bytes());
        assert_eq!(text(&answer(&app(), &request, &[]), "access-control-allow-headers"), None);
    }

    #[test]
    fn actual_answers_are_readable_by_the_origin_and_the_upstream_s_opinion_goes() {
        let mut out = Headers::new();
        out.push("Access-Control-Allow-Origin", b"*");
        out.push("access-control-allow-credentials", b"true");
        out.push("Vary", b"Accept, Origin");
        respond(&app(), &asking("https://app.example"), &mut out);
        assert!(out.get_all("access-control-allow-origin").eq([&b"https://app.example"[..]]));
        assert_eq!(text(&out, "access-control-expose-headers"), Some("etag, x-total"));
        assert_eq!(out.get_all("vary").count(), 1);

        let mut out = Headers::new();
        respond(&app(), &Headers::new(), &mut out);
        assert!(out.iter().map(|(_, n, v)| (n, v)).eq([("vary", &b"origin"[..])]));
        let mut out = Headers::new();
        respond(&cors(Origins::Any), &Headers::new(), &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn vary_is_not_repeated() {
        let mut headers = Headers::new();
        add_vary(&mut headers, "origin");
        add_vary(&mut headers, "Origin");
        assert_eq!(headers.len(), 1);
        headers.set("vary", b"*");
        add_vary(&mut headers, "origin");
        assert_eq!(headers.len(), 1);
    }
}
