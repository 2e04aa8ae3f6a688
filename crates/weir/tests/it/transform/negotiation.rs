//! Which representation of a reply a client gets.

use super::assert_problem;
use crate::harness::{Server, Weir};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";

fn server() -> Server {
    Weir::new(
        "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\napis:\n  api:\n    base: /\n    routes:\n      \
         - {get: /value, reply: {value: {a: [1, \"<\"]}, as: [json, xml]}}\n      \
         - {get: /xml, reply: {value: {a: 1}, as: xml, xml: {root: thing}}}\n      \
         - {get: /json, reply: {json: {a: 1}}}\n      \
         - {get: \"/map/{id}\", reply: {map: {id: {cel: request.path.id}}, as: [json, xml]}}\n",
    )
    .start()
}

#[test]
fn accept_chooses_among_what_is_offered() {
    let server = server();
    let mut client = server.connect();
    for (accept, expected) in [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/xml", "application/xml"),
        ("APPLICATION/XML", "application/xml"),
        ("application/json;q=0.5, application/xml", "application/xml"),
        ("application/xml;q=0.5, application/json;q=0.6", "application/json"),
        ("application/xml, */*;q=0.1", "application/xml"),
        ("application/json;q=0, */*", "application/xml"),
        ("text/plain, application/xml;q=0.001", "application/xml"),
        (BROWSER, "application/json"),
    ] {
        let headers: &[_] = if accept.is_empty() { &[] } else { &[("accept", accept)] };
        for path in ["/value", "/map/7"] {
            let response = client.request("GET", path, headers, "");
            assert_eq!(response.status, 200, "{accept}");
            assert_eq!(response.header("content-type"), Some(expected), "{path} for {accept:?}");
            assert_eq!(response.header("vary"), Some("accept"), "{path}: caches must know");
        }
    }
    let xml = client.request("GET", "/value", &[("accept", "application/xml")], "").text();
    assert!(xml.contains("<response><a>1</a><a>&lt;</a></response>"), "{xml}");
    let xml = client.get("/xml").text();
    assert!(xml.contains("<thing><a>1</a></thing>"), "{xml}");
    assert_eq!(client.request("GET", "/json", &[("accept", "image/png")], "").status, 200);
}

#[test]
fn nothing_acceptable_is_said() {
    let server = server();
    for accept in ["image/png", "application/json;q=0, application/xml;q=0", "text/*", "*/*;q=0"] {
        let refused = server.connect().request("GET", "/value", &[("accept", accept)], "");
        assert_problem(&refused, 406, "not-acceptable", accept);
    }
}

#[test]
fn problems_come_as_xml_where_that_is_preferred() {
    let server = server();
    let mut client = server.connect();
    let get = |accept| [("accept", accept)];
    let xml = client.request("GET", "/none", &get("application/xml"), "");
    assert_eq!((xml.status, xml.header("content-type")), (404, Some("application/problem+xml")));
    assert!(xml.text().contains("<type>urn:weir:problem:no-route</type>"), "{}", xml.text());
    for accept in ["image/png", BROWSER, "application/problem+json, application/xml"] {
        let json = client.request("GET", "/none", &get(accept), "");
        assert_eq!(json.header("content-type"), Some("application/problem+json"), "{accept}");
    }
}

#[test]
fn head_and_options_follow_from_get() {
    let server = server();
    let mut client = server.connect();
    let get = client.get("/json");
    let head = client.request("HEAD", "/json", &[], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    let options = client.request("OPTIONS", "/json", &[], "");
    assert_eq!((options.status, options.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
    let refused = client.request("DELETE", "/json", &[], "");
    assert_problem(&refused, 405, "method-not-allowed", "DELETE");
    assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
}
